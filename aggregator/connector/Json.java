package aggregator.connector;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

/** JSON between Python and Java. Malformed text is a defect of ours, so it is unchecked. */
final class Json {
    /** Keys of records stand in it, so only a record's own size bounds how long a text is. */
    private static final ObjectMapper MAPPER =
        new ObjectMapper(JsonFactory.builder()
                             .streamReadConstraints(StreamReadConstraints.builder()
                                                        .maxStringLength(Integer.MAX_VALUE)
                                                        .maxNameLength(Integer.MAX_VALUE)
                                                        .build())
                             .build());

    private Json() {}

    static JsonNode parse(String text) {
        try {
            return MAPPER.readTree(text);
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException(error);
        }
    }
}
