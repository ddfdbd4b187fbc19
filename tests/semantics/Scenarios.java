import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Runs each scenario of scenarios.json step by step in Kafka's TopologyTestDriver and prints, as JSON, what each
 * step sent: key, value and timestamp. topologies.py has the same topologies in tidegate; functions have the same
 * names in both.
 *
 * <p>Argument: scenarios.json. A step is {@code topic key=value @timestamp}, with {@code ~} for null.
 */
public final class Scenarios {
    private static final Serde<String> TEXT = Serdes.String();
    private static final Serde<Long> NUMBER = Serdes.Long();
    private static final Pattern STEP = Pattern.compile("(\\S+) (\\S*)=(\\S*) @(\\d+)");
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ValueJoiner<String, Object, String> PAIR = (left, right) -> left + "&" + right;

    private interface Build {
        void into(StreamsBuilder builder);
    }

    public static void main(String[] args) throws IOException {
        JsonNode scenarios = JSON.readTree(new File(args[0]));
        ObjectNode found = JSON.createObjectNode();
        found.put("kafka", AppInfoParser.getVersion());
        found.set("partitions of 7", partitions());
        ObjectNode results = found.putObject("scenarios");
        scenarios.properties().forEach(scenario -> results.set(scenario.getKey(), played(scenario.getValue())));
        System.out.println(JSON.writeValueAsString(found));
    }

    /** Which of 7 partitions the default partitioner gives a key. */
    private static ObjectNode partitions() {
        ObjectNode found = JSON.createObjectNode();
        for (long number : new long[] {0, 1, -1, 42, 1L << 40, Long.MIN_VALUE, Long.MAX_VALUE}) {
            found.put("Long " + number, partition(Serdes.Long().serializer().serialize("t", number)));
        }
        for (int number : new int[] {0, 1, -1, 42, Integer.MIN_VALUE, Integer.MAX_VALUE}) {
            found.put("Integer " + number, partition(Serdes.Integer().serializer().serialize("t", number)));
        }
        return found;
    }

    private static int partition(byte[] key) {
        return Utils.toPositive(Utils.murmur2(key)) % 7;
    }

    private static ArrayNode played(JsonNode scenario) {
        StreamsBuilder builder = new StreamsBuilder();
        String topology = scenario.get("topology").asText();
        TOPOLOGIES.get(topology).into(builder);
        ArrayNode steps = JSON.createArrayNode();
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), settings())) {
            Map<String, TestInputTopic<String, String>> inputs = new TreeMap<>();
            TestOutputTopic<String, byte[]> output =
                driver.createOutputTopic("out", TEXT.deserializer(), Serdes.ByteArray().deserializer());
            boolean numbers = topology.contains("count") || topology.contains("sum");
            Deserializer<?> values = numbers ? NUMBER.deserializer() : TEXT.deserializer();
            for (JsonNode step : scenario.get("steps")) {
                Matcher parts = STEP.matcher(step.asText());
                if (!parts.matches()) {
                    throw new IllegalArgumentException("no step: " + step);
                }
                TestInputTopic<String, String> input = inputs.computeIfAbsent(
                    parts.group(1), name -> driver.createInputTopic(name, TEXT.serializer(), TEXT.serializer()));
                ArrayNode sent = steps.addArray();
                try {
                    input.pipeInput(orNull(parts.group(2)), orNull(parts.group(3)), Long.parseLong(parts.group(4)));
                } catch (RuntimeException error) {
                    Throwable cause = error.getCause() == null ? error : error.getCause();
                    sent.addArray().add("error").add(cause.getClass().getSimpleName());
                    break;
                }
                for (TestRecord<String, byte[]> record : output.readRecordsToList()) {
                    ArrayNode one = sent.addArray().add(record.key());
                    Object value = record.value() == null ? null : values.deserialize("out", record.value());
                    one.addPOJO(value).add(record.timestamp());
                }
            }
        }
        return steps;
    }

    private static String orNull(String text) {
        return text.equals("~") ? null : text;
    }

    private static Properties settings() {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "scenarios");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        return settings;
    }

    // --- functions ---------------------------------------------------------------------------------------------

    private static String shout(String value) {
        return value == null ? "nothing" : value + "!";
    }

    private static String orNothing(String value) {
        return value.startsWith("x") ? null : value;
    }

    private static boolean plain(String value) {
        return value != null && !value.startsWith("x");
    }

    private static String first(String value) {
        return value.startsWith("x") ? null : value.substring(0, 1);
    }

    private static String initial(String value) {
        return value.isEmpty() ? "-" : value.substring(0, 1);
    }

    private static String without(String text, String part) {
        int at = text.indexOf(part);
        return at < 0 ? text : text.substring(0, at) + text.substring(at + part.length());
    }

    private static String appendedOrNull(String text, String value) {
        return value.startsWith("x") ? null : text + value;
    }

    // --- topologies --------------------------------------------------------------------------------------------

    private static KStream<String, String> in(StreamsBuilder builder) {
        return builder.stream("in", Consumed.with(TEXT, TEXT));
    }

    private static KTable<String, String> table(StreamsBuilder builder, String topic) {
        return builder.table(topic, Consumed.with(TEXT, TEXT), Materialized.as(topic + "-rows"));
    }

    private static KTable<String, Long> counted(KTable<String, String> table) {
        return table.groupBy((key, value) -> KeyValue.pair(initial(value), value), Grouped.with(TEXT, TEXT))
            .count(Materialized.with(TEXT, NUMBER));
    }

    private static KTable<String, Long> countedIfAny(KTable<String, String> table) {
        return table.groupBy((key, value) -> KeyValue.pair(first(value), value), Grouped.with(TEXT, TEXT))
            .count(Materialized.with(TEXT, NUMBER));
    }

    private static void numbers(KTable<String, Long> table) {
        table.toStream().to("out", Produced.with(TEXT, NUMBER));
    }

    private static void texts(KTable<String, String> table) {
        table.toStream().to("out", Produced.with(TEXT, TEXT));
    }

    private static void texts(KStream<String, String> stream) {
        stream.to("out", Produced.with(TEXT, TEXT));
    }

    private static final Map<String, Build> TOPOLOGIES = new TreeMap<>();

    static {
        TOPOLOGIES.put("stream map", b -> texts(in(b).mapValues(Scenarios::shout)));
        TOPOLOGIES.put("stream filter", b -> texts(in(b).filter((key, value) -> plain(value))));
        TOPOLOGIES.put("stream flat_map", b -> texts(in(b).flatMapValues(value -> Arrays.asList(value.split("-")))));
        TOPOLOGIES.put("stream select_key", b -> texts(in(b).selectKey((key, value) -> initial(value))));
        TOPOLOGIES.put("stream merge", b -> texts(in(b).merge(b.stream("more", Consumed.with(TEXT, TEXT)))));
        TOPOLOGIES.put("stream to nothing", b -> texts(in(b).mapValues(Scenarios::orNothing)));
        TOPOLOGIES.put("stream repartition", b -> texts(in(b).repartition()));
        TOPOLOGIES.put("count", b -> numbers(in(b).groupByKey(Grouped.with(TEXT, TEXT))
            .count(Materialized.with(TEXT, NUMBER))));
        TOPOLOGIES.put("sum", b -> numbers(in(b).groupByKey(Grouped.with(TEXT, TEXT))
            .aggregate(() -> 0L, (key, value, sum) -> sum + value.length(), Materialized.with(TEXT, NUMBER))));
        TOPOLOGIES.put("reduce", b -> texts(in(b).groupByKey(Grouped.with(TEXT, TEXT))
            .reduce(String::concat, Materialized.with(TEXT, TEXT))));
        TOPOLOGIES.put("reduce to nothing", b -> texts(in(b).groupByKey(Grouped.with(TEXT, TEXT))
            .reduce(Scenarios::appendedOrNull, Materialized.with(TEXT, TEXT))));
        TOPOLOGIES.put("aggregate", b -> texts(in(b).groupByKey(Grouped.with(TEXT, TEXT))
            .aggregate(() -> "", (key, value, text) -> text + value, Materialized.with(TEXT, TEXT))));
        TOPOLOGIES.put("aggregate to nothing", b -> texts(in(b).groupByKey(Grouped.with(TEXT, TEXT))
            .aggregate(() -> "", (key, value, text) -> appendedOrNull(text, value), Materialized.with(TEXT, TEXT))));
        TOPOLOGIES.put("group_by count", b -> numbers(in(b)
            .groupBy((key, value) -> first(value), Grouped.with(TEXT, TEXT)).count(Materialized.with(TEXT, NUMBER))));
        TOPOLOGIES.put("count, map", b -> numbers(in(b).groupByKey(Grouped.with(TEXT, TEXT))
            .count(Materialized.with(TEXT, NUMBER)).mapValues(count -> count * 10)));
        TOPOLOGIES.put("count, filter", b -> numbers(in(b).groupByKey(Grouped.with(TEXT, TEXT))
            .count(Materialized.with(TEXT, NUMBER)).filter((key, count) -> count % 2 == 0)));
        TOPOLOGIES.put("aggregate, group_by count", b -> numbers(counted(in(b).groupByKey(Grouped.with(TEXT, TEXT))
            .aggregate(() -> "", (key, value, text) -> value + text, Materialized.with(TEXT, TEXT)))));
        TOPOLOGIES.put("table", b -> texts(table(b, "in")));
        TOPOLOGIES.put("table map", b -> texts(table(b, "in").mapValues(value -> value + "!")));
        TOPOLOGIES.put("table map to nothing", b -> texts(table(b, "in").mapValues(Scenarios::orNothing)));
        TOPOLOGIES.put("table filter", b -> texts(table(b, "in").filter((key, value) -> plain(value))));
        TOPOLOGIES.put("table join", b -> texts(table(b, "in").join(table(b, "other"), PAIR::apply)));
        TOPOLOGIES.put("table left_join", b -> texts(table(b, "in").leftJoin(table(b, "other"), PAIR::apply)));
        TOPOLOGIES.put("table join of views", b -> texts(table(b, "in").filter((key, value) -> plain(value))
            .leftJoin(table(b, "other").mapValues(value -> value + "!"), PAIR::apply)));
        TOPOLOGIES.put("table self join", b -> {
            KTable<String, String> table = table(b, "in");
            texts(table.join(table, PAIR::apply));
        });
        TOPOLOGIES.put("table self left_join of a view", b -> {
            KTable<String, String> table = table(b, "in");
            texts(table.leftJoin(table.filter((key, value) -> plain(value)), PAIR::apply));
        });
        TOPOLOGIES.put("table self join, group_by count", b -> {
            KTable<String, String> table = table(b, "in");
            numbers(counted(table.join(table.mapValues(value -> value + "!"), PAIR::apply)));
        });
        TOPOLOGIES.put("table join, group_by count", b -> numbers(counted(
            table(b, "in").join(table(b, "other"), PAIR::apply))));
        TOPOLOGIES.put("table group_by count", b -> numbers(counted(table(b, "in"))));
        TOPOLOGIES.put("table group_by count, if any", b -> numbers(countedIfAny(table(b, "in"))));
        TOPOLOGIES.put("table filter, group_by count", b -> numbers(counted(
            table(b, "in").filter((key, value) -> plain(value)))));
        TOPOLOGIES.put("table group_by aggregate", b -> texts(table(b, "in")
            .groupBy((key, value) -> KeyValue.pair(initial(value), value), Grouped.with(TEXT, TEXT))
            .aggregate(() -> "", (key, value, text) -> text + value, (key, value, text) -> without(text, value),
                Materialized.with(TEXT, TEXT))));
        TOPOLOGIES.put("table group_by sum", b -> numbers(table(b, "in")
            .groupBy((key, value) -> KeyValue.pair(initial(value), value), Grouped.with(TEXT, TEXT))
            .aggregate(() -> 0L, (key, value, sum) -> sum + value.length(), (key, value, sum) -> sum - value.length(),
                Materialized.with(TEXT, NUMBER))));
        TOPOLOGIES.put("stream-table join", b -> texts(in(b).join(table(b, "other"), PAIR::apply)));
        TOPOLOGIES.put("stream-table left_join", b -> texts(in(b).leftJoin(table(b, "other"), PAIR::apply)));
        TOPOLOGIES.put("stream-table join of a view", b -> texts(in(b).join(
            table(b, "other").filter((key, value) -> plain(value)).mapValues(value -> value + "!"), PAIR::apply)));
        TOPOLOGIES.put("stream joined with a tally", b -> texts(in(b).leftJoin(
            in2(b).groupByKey(Grouped.with(TEXT, TEXT)).count(Materialized.with(TEXT, NUMBER)), PAIR::apply)));
    }

    private static KStream<String, String> in2(StreamsBuilder builder) {
        return builder.stream("other", Consumed.with(TEXT, TEXT));
    }
}
