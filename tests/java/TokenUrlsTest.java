package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Whether the pinned client keeps to the property that `datapath/connector/connector.py` sets. */
class TokenUrlsTest {
    private static final String ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls";
    private static final String NAMED = "http://127.0.0.1:9/token";
    private static final String PACKAGE = "org.apache.kafka.common.security.oauthbearer.";

    @TempDir Path folder;

    @AfterEach
    void forget() {
        System.clearProperty(ALLOWED);
    }

    /** Why a client cannot log in that is to take its token from there. */
    private static String refusal(String url) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", "127.0.0.1:9");
        settings.put("security.protocol", "SASL_PLAINTEXT");
        settings.put("sasl.mechanism", "OAUTHBEARER");
        settings.put("sasl.oauthbearer.token.endpoint.url", url);
        settings.put(
            "sasl.login.callback.handler.class", PACKAGE + "OAuthBearerLoginCallbackHandler");
        settings.put(
            "sasl.jaas.config",
            PACKAGE + "OAuthBearerLoginModule required clientId=\"a\" clientSecret=\"b\";");
        settings.put("sasl.login.retry.backoff.ms", "10");
        settings.put("sasl.login.retry.backoff.max.ms", "10");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        Throwable why = assertThrows(
            KafkaException.class, () -> new KafkaConsumer<>(settings, bytes, bytes).close());
        while (why.getCause() != null) {
            why = why.getCause();
        }
        return why.getClass().getSimpleName();
    }

    @Test
    void onlyWhatIsNamedIsAskedAndNoFileIsRead() throws Exception {
        String file = Files.writeString(folder.resolve("token"), "no.token").toUri().toString();
        String other = "http://127.0.0.1:9/other";
        System.setProperty(ALLOWED, "http://127.0.0.1:9/first," + NAMED);
        assertEquals("IllegalArgumentException", refusal(file));
        assertEquals("IllegalArgumentException", refusal(other));
        // No one answers there, but it is asked.
        assertEquals("LoginException", refusal(" " + NAMED + " "));
    }

    @Test
    void withoutThePropertyAFileIsReadAsWell() throws Exception {
        String file = Files.writeString(folder.resolve("token"), "no.token").toUri().toString();
        assertEquals("LoginException", refusal(file));
    }
}
