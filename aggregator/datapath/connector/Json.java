package aggregator.connector;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;

/** JSON between Python and Java. Malformed text is our own defect, so it is unchecked. */
final class Json {
    /**
     * Without Jackson's own limits: keys of records stand in what is read, or it is a record, so a
     * record's size bounds it. Its parsers keep a place per level on the heap and call nothing for
     * it.
     */
    static final JsonFactory FACTORY =
        JsonFactory.builder()
            .streamReadConstraints(StreamReadConstraints.builder()
                                       .maxStringLength(Integer.MAX_VALUE)
                                       .maxNameLength(Integer.MAX_VALUE)
                                       .maxNumberLength(Integer.MAX_VALUE)
                                       .maxNestingDepth(Integer.MAX_VALUE)
                                       .build())
            .build();
    private static final ObjectMapper MAPPER = new ObjectMapper(FACTORY);

    private Json() {}

    static JsonNode parse(String text) {
        try {
            return MAPPER.readTree(text);
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException(error);
        }
    }

    /** The fields of an object as text, in their order. */
    static Map<String, String> texts(JsonNode object) {
        Map<String, String> found = new LinkedHashMap<>();
        object.properties().forEach(each -> found.put(each.getKey(), each.getValue().asText()));
        return found;
    }
}
