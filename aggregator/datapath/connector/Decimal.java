package aggregator.connector;

import java.nio.charset.StandardCharsets;

/**
 * The decimal text of a number, which is cheap where each number is a little more than the one
 * before. Pure; used by one thread.
 */
final class Decimal {
    /** As many as a number of 64 bits has, with its sign. */
    static final int MOST = 20;
    /** A number that is further on is written as a whole. */
    private static final int NEAR = 10_000;

    final byte[] text = new byte[MOST];
    int length = 1;
    private long number;

    Decimal() {
        text[0] = '0';
    }

    void set(long next) {
        long more = next - number;
        boolean isNear = number >= 0 && more >= 0 && more < NEAR;
        if (!isNear || !add((int) more)) {
            write(next);
        }
        number = next;
    }

    /** False where it needs another digit; the text is then worth nothing. */
    private boolean add(int more) {
        int at = length - 1;
        int rest = more;
        while (rest > 0) {
            if (at < 0) {
                return false;
            }
            int sum = text[at] - '0' + rest;
            rest = sum / 10;
            text[at] = (byte) ('0' + sum - 10 * rest);
            at--;
        }
        return true;
    }

    private void write(long whole) {
        byte[] made = Long.toString(whole).getBytes(StandardCharsets.ISO_8859_1);
        length = made.length;
        System.arraycopy(made, 0, text, 0, length);
    }
}
