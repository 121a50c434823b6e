package aggregator.connector;

import java.nio.charset.StandardCharsets;

/**
 * The decimal text of a number within an array, which is cheap where each number is a little more
 * than the one before. Used by one thread.
 */
final class Decimal {
    /** As many as a number of 64 bits has, with its sign. */
    static final int MOST = 20;
    /** A number that is further on is written as a whole. */
    private static final int NEAR = 10_000;

    private final byte[] bytes;
    private int at;
    private long number;
    int length;

    /** The text of 0, from a place on at which there is room for the longest. */
    Decimal(byte[] bytes, int at) {
        this.bytes = bytes;
        moveTo(at);
    }

    /** Writes the text at another place. What is at the one before is worth nothing. */
    void moveTo(int place) {
        at = place;
        write();
    }

    /** Writes the text of another number; false where it is longer or shorter than before. */
    boolean set(long next) {
        long more = next - number;
        boolean isNear = number >= 0 && more >= 0 && more < NEAR;
        number = next;
        return isNear && add((int) more) || write();
    }

    /** False where it needs another digit; the text is then worth nothing. */
    private boolean add(int more) {
        int place = at + length - 1;
        int rest = more;
        while (rest > 0) {
            if (place < at) {
                return false;
            }
            int sum = bytes[place] - '0' + rest;
            rest = sum / 10;
            bytes[place] = (byte) ('0' + sum - 10 * rest);
            place--;
        }
        return true;
    }

    private boolean write() {
        byte[] made = Long.toString(number).getBytes(StandardCharsets.ISO_8859_1);
        System.arraycopy(made, 0, bytes, at, made.length);
        boolean isAsLong = made.length == length;
        length = made.length;
        return isAsLong;
    }
}
