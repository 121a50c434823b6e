"""A room: values in the wire format of a schema registry, as columns; on the JVM."""
