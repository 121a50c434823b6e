"""Streams into the hub: lanes go in, tagged and repartitioned records come out."""
