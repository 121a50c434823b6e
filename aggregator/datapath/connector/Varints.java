package aggregator.connector;

/** Numbers as Kafka's record format writes them: signs folded in, 7 bits a byte. Pure. */
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

    /** The same of 64 bits. */
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
