package aggregator.connector;

import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdCompressCtx;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.Map;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Makes of what a batch has gathered the bytes that are sent: compresses it in one call, in memory
 * that is used again.
 *
 * <p>Used by the task's thread; `arrived` is for that of a producer.
 */
final class BatchPacker implements AutoCloseable {
    private static final int MOST_KEPT_BYTES = 2_000_000;

    private final Compression compression;
    /** Null for other codecs. One for all batches: a new one clears its tables first. */
    private final ZstdCompressCtx zstd;
    private final BatchBuffers buffers;
    /** What was compressed last, behind the room for a header. */
    private byte[] packed = {};

    /** For batches of a producer with these settings. */
    BatchPacker(Map<String, String> producer) {
        compression = compression(producer);
        zstd = compression.type() == CompressionType.ZSTD ? context(producer) : null;
        int batch = (int) HubWriter.number(producer, HubWriter.BATCH, HubWriter.BATCH_BYTES);
        long all = HubWriter.number(producer, HubWriter.BUFFER, HubWriter.BUFFER_BYTES);
        buffers = new BatchBuffers(Math.max(1, batch), all);
    }

    CompressionType type() {
        return compression.type();
    }

    /**
     * How large it becomes when what is behind the room for a header is compressed: `size` where it
     * is not to be.
     */
    int pack(byte[] gathered, int size) {
        if (compression.type() == CompressionType.NONE) {
            return size;
        }
        int at = BatchFormat.RECORDS_AT;
        if (packed.length > MOST_KEPT_BYTES) {
            packed = new byte[0];
        }
        if (zstd == null) {
            return stream(gathered, size);
        }
        int most = at + (int) Zstd.compressBound(size - at);
        if (packed.length < most) {
            packed = new byte[most];
        }
        return at + zstd.compressByteArray(packed, at, packed.length - at, gathered, at, size - at);
    }

    private int stream(byte[] gathered, int size) {
        int at = BatchFormat.RECORDS_AT;
        if (packed.length < size / 2) {
            packed = new byte[size / 2];
        }
        ByteBufferOutputStream into = new ByteBufferOutputStream(ByteBuffer.wrap(packed));
        into.position(at);
        try (OutputStream stream = compression.wrapForOutput(into, RecordBatch.MAGIC_VALUE_V2)) {
            stream.write(gathered, at, size - at);
        } catch (IOException impossible) {
            throw new UncheckedIOException(impossible);
        }
        packed = into.buffer().array();
        return into.position();
    }

    /** What was compressed last. Valid until the next call. */
    byte[] packed() {
        return packed;
    }

    /** A finished batch in memory of its own. */
    ByteBuffer own(byte[] bytes, int size) {
        return buffers.copy(bytes, size);
    }

    /** The same of a batch that was fetched. */
    ByteBuffer own(ByteBuffer batch) {
        return buffers.copy(batch);
    }

    /** The hub has it: its memory is used again. */
    void arrived(ByteBuffer own) {
        buffers.give(own);
    }

    @Override
    public void close() {
        if (zstd != null) {
            zstd.close();
        }
    }

    private static ZstdCompressCtx context(Map<String, String> producer) {
        return new ZstdCompressCtx().setLevel(level(CompressionType.ZSTD, producer));
    }

    /** As the producer's settings say, with the level of its codec. */
    static Compression compression(Map<String, String> producer) {
        CompressionType type =
            CompressionType.forName(producer.getOrDefault("compression.type", "none"));
        return switch (type) {
            case GZIP -> Compression.gzip().level(level(type, producer)).build();
            case LZ4 -> Compression.lz4().level(level(type, producer)).build();
            case ZSTD -> Compression.zstd().level(level(type, producer)).build();
            default -> Compression.of(type).build();
        };
    }

    private static int level(CompressionType type, Map<String, String> producer) {
        String given = producer.get("compression." + type.name + ".level");
        return given == null ? type.defaultLevel() : Integer.parseInt(given.trim());
    }
}
