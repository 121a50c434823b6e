package aggregator.connector;

import org.apache.kafka.common.utils.ByteUtils;

/**
 * Numbers as Kafka's record format writes them (signs folded in, 7 bits a byte), and fields with
 * their length before them. Pure.
 */
final class Varints {
    private Varints() {}

    /** Writes a number of 32 bits; returns the place behind it. */
    static int put(byte[] bytes, int at, int number) {
        int rest = (number << 1) ^ (number >> 31);
        int place = at;
        while ((rest & ~0x7f) != 0) {
            bytes[place++] = (byte) (rest & 0x7f | 0x80);
            rest >>>= 7;
        }
        bytes[place++] = (byte) rest;
        return place;
    }

    /** Writes a field, which may be null; returns the place behind it. */
    static int put(byte[] bytes, int at, byte[] field) {
        if (field == null) {
            return put(bytes, at, -1);
        }
        int place = put(bytes, at, field.length);
        System.arraycopy(field, 0, bytes, place, field.length);
        return place + field.length;
    }

    /** How many bytes a field takes, with its length. */
    static int sizeOf(byte[] field) {
        return field == null ? 1 : ByteUtils.sizeOfVarint(field.length) + field.length;
    }

    /** Writes a number of 64 bits; returns the place behind it. */
    static int put(byte[] bytes, int at, long number) {
        long rest = (number << 1) ^ (number >> 63);
        int place = at;
        while ((rest & ~0x7fL) != 0) {
            bytes[place++] = (byte) (rest & 0x7f | 0x80);
            rest >>>= 7;
        }
        bytes[place++] = (byte) rest;
        return place;
    }
}
