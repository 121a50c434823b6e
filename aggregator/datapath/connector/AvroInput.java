package aggregator.connector;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/**
 * Reads Avro's binary form from the bytes of one record. Avro's own decoder makes room for any
 * length that a damaged record names; this one takes none that goes beyond the record.
 */
final class AvroInput {
    static final String TOO_DEEP = "it is nested too deep";
    /** Items without bytes, such as nulls, are not bounded by those of the record. */
    private static final int MOST_EMPTY = 1 << 20;

    private final ByteBuffer bytes;
    private int empty;

    /** The bytes are not what their schema says. */
    static final class Misread extends RuntimeException {
        Misread(String reason) {
            super(reason, null, false, false);
        }
    }

    AvroInput(byte[] bytes) {
        this.bytes = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    int left() {
        return bytes.remaining();
    }

    boolean bool() {
        return need(1).get() != 0;
    }

    int whole() {
        long found = big();
        if (found != (int) found) {
            throw new Misread("an int has more than 32 bits");
        }
        return (int) found;
    }

    long big() {
        long found = 0;
        for (int shift = 0; shift < 70; shift += 7) {
            byte it = need(1).get();
            found |= (long) (it & 0x7f) << shift;
            if (it >= 0) {
                return (found >>> 1) ^ -(found & 1);
            }
        }
        throw new Misread("a number has more than 64 bits");
    }

    float real() {
        return need(4).getFloat();
    }

    double wide() {
        return need(8).getDouble();
    }

    byte[] bytes() {
        return fixed(length(big()));
    }

    byte[] fixed(int length) {
        byte[] found = new byte[length];
        need(length).get(found);
        return found;
    }

    String text() {
        int length = length(big());
        ByteBuffer part = need(length).slice();
        part.limit(length);
        bytes.position(bytes.position() + length);
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(part).toString();
        } catch (CharacterCodingException error) {
            throw new Misread("a string is no UTF-8");
        }
    }

    void skip(int length) {
        need(length);
        bytes.position(bytes.position() + length);
    }

    int length(long length) {
        if (length < 0 || length > bytes.remaining()) {
            throw new Misread("it ends early");
        }
        return (int) length;
    }

    /** The items of a block of a list or a map; 0 behind the last one. */
    long block() {
        long count = big();
        if (count < 0) {
            big();
            count = -count;
        }
        if (count < 0) {
            throw new Misread("a list has less than no items");
        }
        return count;
    }

    /** Called for each item of a list, with what was left before it. */
    void counted(int before) {
        if (before == bytes.remaining() && ++empty > MOST_EMPTY) {
            throw new Misread("a list has more than a million items without content");
        }
    }

    private ByteBuffer need(int length) {
        if (length > bytes.remaining()) {
            throw new Misread("it ends early");
        }
        return bytes;
    }
}
