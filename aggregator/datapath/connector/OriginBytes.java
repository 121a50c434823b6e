package aggregator.connector;

import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * The headers of an origin as the bytes of the record format: what is the same for a whole source
 * partition is encoded once, and as a rule a record only changes a few digits in it. Used by one
 * thread; the bytes hold until the next call.
 */
final class OriginBytes {
    private static final int LENGTH_BYTES = 5;

    private final byte[] start;
    private final byte[] offsetName;
    private final byte[] timestampName;
    private final byte[] place;
    private final byte[] bytes;
    private final Decimal offsetText;
    private final Decimal timestampText;
    /** The same as objects. */
    final Origin.Tag tag;
    /** How many headers there are. */
    final int count;
    private int size;

    /** In five headers: cluster, topic and partition in front, by the names of all five. */
    OriginBytes(List<String> names, String cluster, String topic, int partition, Origin.Tag tag) {
        this.tag = tag;
        String[] values = {cluster, topic, Integer.toString(partition)};
        byte[] made = {};
        for (int i = 0; i < values.length; i++) {
            made = joined(made, field(utf8(names.get(i))), field(utf8(values[i])));
        }
        start = made;
        offsetName = field(utf8(names.get(3)));
        timestampName = field(utf8(names.get(4)));
        place = new byte[0];
        count = 5;
        bytes = new byte
            [start.length + offsetName.length + timestampName.length + 2 * Decimal.MOST + 2];
        offsetText = new Decimal(bytes, 0);
        timestampText = new Decimal(bytes, 0);
        arrange();
    }

    /** In one header of this name. */
    OriginBytes(String name, String cluster, String topic, int partition, Origin.Tag tag) {
        this.tag = tag;
        start = field(utf8(name));
        offsetName = null;
        timestampName = null;
        place = OriginText.place(cluster, topic, partition);
        count = 1;
        bytes = new byte[start.length + LENGTH_BYTES + place.length + Decimal.MOST];
        offsetText = new Decimal(bytes, 0);
        timestampText = null;
        arrange();
    }

    /** Encodes the origin of a record, and returns how long it is. */
    int encode(long offset, long timestamp) {
        boolean fits = offsetText.set(offset);
        if (timestampText != null) {
            fits &= timestampText.set(timestamp);
        }
        if (!fits) {
            arrange();
        }
        return size;
    }

    /** Puts everything to its place, from front to back: a text that is longer covers the next. */
    private void arrange() {
        size = 0;
        put(start);
        if (timestampText == null) {
            size = Varints.put(bytes, size, place.length + offsetText.length);
            put(place);
            put(offsetText);
        } else {
            put(offsetName);
            size = Varints.put(bytes, size, offsetText.length);
            put(offsetText);
            put(timestampName);
            size = Varints.put(bytes, size, timestampText.length);
            put(timestampText);
        }
    }

    byte[] bytes() {
        return bytes;
    }

    int size() {
        return size;
    }

    private void put(byte[] part) {
        System.arraycopy(part, 0, bytes, size, part.length);
        size += part.length;
    }

    private void put(Decimal number) {
        number.moveTo(size);
        size += number.length;
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] field(byte[] content) {
        byte[] made = new byte[Varints.sizeOf(content)];
        Varints.put(made, 0, content);
        return made;
    }

    private static byte[] joined(byte[]... parts) {
        java.io.ByteArrayOutputStream all = new java.io.ByteArrayOutputStream();
        for (byte[] part : parts) {
            all.writeBytes(part);
        }
        return all.toByteArray();
    }
}
