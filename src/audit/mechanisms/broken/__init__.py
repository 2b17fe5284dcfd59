"""Mechanisms with a known bug, so that an audit can be seen to find it. Never use one on data."""
