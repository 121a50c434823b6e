package mirror;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.connect.mirror.Heartbeat;

/**
 * Reads heartbeats as MirrorMaker 2 does, for tests/integration/test_heartbeats_at_the_hub.py: of
 * each line of stdin, which holds key and value in hex, the aliases of source and target, and the
 * timestamp.
 */
final class ReadHeartbeats {
    private ReadHeartbeats() {}

    public static void main(String[] args) throws IOException {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ");
            byte[] key = HexFormat.of().parseHex(parts[0]);
            byte[] value = HexFormat.of().parseHex(parts[1]);
            Heartbeat read =
                Heartbeat.deserializeRecord(new ConsumerRecord<>("heartbeats", 0, 0, key, value));
            System.out.println(
                read.sourceClusterAlias() + " " + read.targetClusterAlias() + " "
                + read.timestamp());
        }
    }
}
