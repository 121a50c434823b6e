package aggregator.connector;

import java.lang.reflect.Field;

/** Fields of kafka-clients that are private, by their names. */
public final class PrivateFields {
    private PrivateFields() {}

    /** A field that may be read and set; NoSuchFieldException where there is none of this name. */
    public static Field find(Class<?> type, String name) throws NoSuchFieldException {
        Field found = type.getDeclaredField(name);
        found.setAccessible(true);
        return found;
    }

    /** What a field of an object holds. */
    public static Object get(Class<?> type, Object of, String name)
        throws ReflectiveOperationException {
        return find(type, name).get(of);
    }
}
