package clients;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.sourcelab.kafka.connect.apiclient.Configuration;
import org.sourcelab.kafka.connect.apiclient.KafkaConnectClient;
import org.sourcelab.kafka.connect.apiclient.request.JacksonFactory;
import org.sourcelab.kafka.connect.apiclient.request.dto.ConnectorPluginConfigDefinition;
import org.sourcelab.kafka.connect.apiclient.request.dto.NewConnectorDefinition;
import org.sourcelab.kafka.connect.apiclient.request.post.PostConnectorRestart;
import org.sourcelab.kafka.connect.apiclient.rest.exceptions.InvalidRequestException;

/**
 * Asks a Connect by its Java client: a call a line on stdin, what the client understood a line on
 * stdout. For tests/integration/test_connect_clients.py.
 */
final class ConnectClient {
    private static final int SECONDS = 120;

    private ConnectClient() {}

    /** The address; and the user and the password, where they are asked for. */
    public static void main(String[] args) throws IOException {
        Configuration configuration =
            new Configuration(args[0]).useRequestTimeoutInSeconds(SECONDS);
        if (args.length > 1) {
            configuration.useBasicAuth(args[1], args[2]);
        }
        KafkaConnectClient client = new KafkaConnectClient(configuration);
        ObjectMapper json = JacksonFactory.newInstance();
        BufferedReader calls =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            System.out.println(json.writeValueAsString(answer(client, json.readTree(line))));
            System.out.flush();
        }
    }

    private static Object answer(KafkaConnectClient client, JsonNode call) {
        try {
            return ask(client, call.get("call").asText(), call.path("name").asText(), call);
        } catch (InvalidRequestException error) {
            return Map.of("refused", error.getErrorCode(), "message", error.getMessage());
        }
    }

    private static Object ask(KafkaConnectClient client, String call, String name, JsonNode all) {
        return switch (call) {
            case "version" -> client.getConnectServerVersion();
            case "connectors" -> client.getConnectors();
            case "statuses" -> client.getConnectorsWithExpandedStatus().getMappedStatuses();
            case "definitions" -> client.getConnectorsWithExpandedInfo().getMappedDefinitions();
            case "add" ->
                client.addConnector(NewConnectorDefinition.newBuilder()
                                        .withName(name)
                                        .withConfig(config(all))
                                        .build());
            case "update" -> client.updateConnectorConfig(name, config(all));
            case "definition" -> client.getConnector(name);
            case "config" -> client.getConnectorConfig(name);
            case "status" -> client.getConnectorStatus(name);
            case "tasks" -> client.getConnectorTasks(name);
            case "task" -> client.getConnectorTaskStatus(name, all.get("task").asInt());
            case "topics" -> client.getConnectorTopics(name);
            case "reset topics" -> client.resetConnectorTopics(name);
            case "pause" -> client.pauseConnector(name);
            case "resume" -> client.resumeConnector(name);
            case "restart" -> client.restartConnector(name);
            case "restart all" ->
                client.restartConnector(
                    new PostConnectorRestart(name).withIncludeTasks(true).withOnlyFailed(false));
            case "restart task" -> client.restartConnectorTask(name, all.get("task").asInt());
            case "plugins" -> client.getConnectorPlugins();
            case "validate" ->
                client.validateConnectorPluginConfig(
                    new ConnectorPluginConfigDefinition(name, config(all)));
            case "delete" -> client.deleteConnector(name);
            default -> throw new IllegalArgumentException(call);
        };
    }

    private static Map<String, String> config(JsonNode call) {
        Map<String, String> config = new HashMap<>();
        call.get("config").fields().forEachRemaining(
            each -> config.put(each.getKey(), each.getValue().asText()));
        return config;
    }
}
