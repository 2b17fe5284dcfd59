"""Where trials come from: the game is played in seeded blocks, here or on Ray, and every finished
block is kept.

A block is the unit of seed, of retry and of the cache. Trial i has bit i mod 2, so that any even
slice of the stream is balanced (in `CanaryGame` a block is one run of many canaries, and bits are
coins); block b of seed s always holds the same trials, whoever plays it and in whatever order. The
only door to ray.
"""

from audit.game.backends import Auto, Backend, Ray, Serial
from audit.game.cache import Cache
from audit.game.identity import fingerprint, sources
from audit.game.isolated import notes_of
from audit.game.play import CanaryGame, Carried, Features, Game, Play, carried
from audit.game.ray_session import cores, start_ray
from audit.game.stream import COPIES, WORK, Played, Stored, Tally, memory

__all__ = [
    "COPIES",
    "WORK",
    "Auto",
    "Backend",
    "Cache",
    "CanaryGame",
    "Carried",
    "Features",
    "Game",
    "Play",
    "Played",
    "Ray",
    "Serial",
    "Stored",
    "Tally",
    "carried",
    "cores",
    "fingerprint",
    "memory",
    "notes_of",
    "sources",
    "start_ray",
]
