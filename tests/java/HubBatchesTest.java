package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Map;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.junit.jupiter.api.Test;

class HubBatchesTest {
    @Test
    void batchesAreCompressedAsTheProducersSettingsSay() {
        assertEquals(CompressionType.NONE, of(Map.of()).type());
        for (CompressionType type : CompressionType.values()) {
            assertEquals(type, of(Map.of("compression.type", type.name)).type());
        }
        assertEquals(
            Compression.zstd().level(7).build(),
            of(Map.of("compression.type", "zstd", "compression.zstd.level", "7")));
        assertEquals(
            Compression.gzip().level(2).build(),
            of(Map.of("compression.type", "gzip", "compression.gzip.level", " 2")));
        assertEquals(
            Compression.lz4().level(9).build(),
            of(Map.of("compression.type", "lz4", "compression.lz4.level", "9")));
        // The level of another codec says nothing.
        assertEquals(
            Compression.lz4().build(),
            of(Map.of("compression.type", "lz4", "compression.zstd.level", "9")));
    }

    @Test
    void anUnknownCodecIsRefused() {
        assertThrows(
            IllegalArgumentException.class, () -> of(Map.of("compression.type", "brotli")));
    }

    private static Compression of(Map<String, String> producer) {
        return HubBatches.compression(producer);
    }
}
