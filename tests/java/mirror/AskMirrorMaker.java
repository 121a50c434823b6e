package org.apache.kafka.connect.mirror;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

/**
 * Says what MirrorMaker 2 makes of a file, without a broker, for
 * tests/unit/test_imports_mirror_maker.py. A line of stdin is a case: the text of a properties
 * file, or the config of a connector, and names of topics. A line of stdout is what comes of it:
 * for each flow which of these topics it takes and how it calls them, and what its clients are
 * given.
 */
final class AskMirrorMaker {
    private static final ObjectMapper JSON = new ObjectMapper();

    private AskMirrorMaker() {}

    public static void main(String[] args) throws IOException {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static ObjectNode answer(JsonNode asked) {
        ObjectNode said = JSON.createObjectNode();
        try {
            ArrayNode flows = said.putArray("flows");
            if (asked.has("text")) {
                ofFile(asked, flows);
            } else {
                Map<String, String> config = new HashMap<>();
                asked.get("config").properties().forEach(
                    it -> config.put(it.getKey(), it.getValue().asText()));
                flows.add(ofConnector(config, asked.get("topics")));
            }
        } catch (IOException | RuntimeException | LinkageError error) {
            said.remove("flows");
            said.put("error", String.valueOf(error.getMessage()));
        }
        return said;
    }

    private static void ofFile(JsonNode asked, ArrayNode flows) throws IOException {
        Properties read = new Properties();
        read.load(new StringReader(asked.get("text").asText()));
        Map<String, String> values = new HashMap<>();
        read.forEach((key, value) -> values.put((String) key, (String) value));
        // It would look through the whole class path for plugins.
        values.put("plugin.discovery", "service_load");
        MirrorMakerConfig file = new MirrorMakerConfig(values);
        for (SourceAndTarget pair : file.clusterPairs()) {
            Map<String, String> config =
                file.connectorBaseConfig(pair, MirrorSourceConnector.class);
            if (!new MirrorSourceConfig(config).enabled()) {
                continue;
            }
            Map<String, String> worker = file.workerConfig(pair);
            ObjectNode flow = ofConnector(config, asked.get("topics"));
            flow.put("source", pair.source());
            flow.put("target", pair.target());
            flow.put("store", worker.get("offset.storage.topic"));
            // As `Worker.baseProducerConfigs` and `Worker.producerConfigs` do.
            Map<String, Object> producer = new TreeMap<>();
            producer.put("bootstrap.servers", worker.get("bootstrap.servers"));
            under(worker, "producer.", producer);
            under(config, "producer.override.", producer);
            flow.set("producer", JSON.valueToTree(producer));
            flows.add(flow);
        }
    }

    private static ObjectNode ofConnector(Map<String, String> given, JsonNode topics) {
        MirrorSourceConfig config = new MirrorSourceConfig(given);
        SourceAndTarget pair =
            new SourceAndTarget(config.sourceClusterAlias(), config.targetClusterAlias());
        MirrorSourceConnector connector = new MirrorSourceConnector(
            pair,
            config.replicationPolicy(),
            config.topicFilter(),
            config.configPropertyFilter(),
            config.heartbeatsReplicationEnabled());
        ObjectNode found = JSON.createObjectNode();
        ObjectNode names = found.putObject("names");
        for (JsonNode topic : topics) {
            if (connector.shouldReplicateTopic(topic.asText())) {
                names.put(topic.asText(), connector.formatRemoteTopic(topic.asText()));
            }
        }
        found.put("connector", config.connectorName());
        found.put("alias", config.sourceClusterAlias());
        found.put("refresh", config.refreshTopicsInterval().toMillis());
        found.put("configs", config.syncTopicConfigsInterval().toMillis());
        found.put("acls", config.syncTopicAclsInterval().toMillis());
        Map<String, Object> consumer = config.sourceConsumerConfig("reader");
        consumer.remove("client.id");
        found.set("consumer", JSON.valueToTree(new TreeMap<>(consumer)));
        return found;
    }

    private static void under(Map<String, String> from, String prefix, Map<String, Object> into) {
        from.forEach((key, value) -> {
            if (key.startsWith(prefix)) {
                into.put(key.substring(prefix.length()), value);
            }
        });
    }
}
