package aggregator.connector;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/**
 * Makes 128 bits of an event's id, by the first half of its SHA-256: no one can make two ids with
 * the same hash. Of one thread.
 */
final class EventHash {
    private static final int TOLD_CHARS = 200;
    private static final int TOLD_BYTES = 64;

    private final MessageDigest digest;

    EventHash() {
        try {
            digest = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    Claims.Event of(byte[] id) {
        ByteBuffer bytes = ByteBuffer.wrap(digest.digest(id));
        return new Claims.Event(bytes.getLong(), bytes.getLong());
    }

    /** An id for people: as text where it is one, else in hexadecimal digits. */
    static String describe(byte[] id) {
        String text = new String(id, StandardCharsets.UTF_8);
        boolean readable = text.chars().noneMatch(c -> c == '\uFFFD' || Character.isISOControl(c));
        if (readable) {
            return text.length() <= TOLD_CHARS ? text : text.substring(0, TOLD_CHARS) + "...";
        }
        int shown = Math.min(id.length, TOLD_BYTES);
        return "0x" + HexFormat.of().formatHex(id, 0, shown) + (shown < id.length ? "..." : "");
    }
}
