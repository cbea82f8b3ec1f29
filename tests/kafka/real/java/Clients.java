import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Stock Java clients that a test steers: one JSON object a line comes in for each thing to do, and one a line
 * goes out for each thing that happened. Everything that is asked for runs in a thread of its own.
 */
public final class Clients {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<Integer, AtomicBoolean> STOPPING = new ConcurrentHashMap<>();

    private final int id;
    private final JsonNode command;
    private final AtomicBoolean stopping = new AtomicBoolean();

    private Clients(JsonNode command) {
        this.id = command.get("id").asInt();
        this.command = command;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Clients clients = new Clients(JSON.readTree(line));
            if (clients.does("stop")) {
                STOPPING.get(clients.id).set(true);
            } else {
                STOPPING.put(clients.id, clients.stopping);
                new Thread(clients::run).start();
            }
        }
        System.exit(0);
    }

    private boolean does(String what) {
        return command.get("do").asText().equals(what);
    }

    private void run() {
        try {
            switch (command.get("do").asText()) {
                case "publish" -> publish();
                case "stream" -> stream();
                case "commit" -> commit();
                default -> consume();
            }
        } catch (Throwable error) {
            say("error", name(error), "text", String.valueOf(error.getMessage()));
        }
        say("done", true);
    }

    /** Sends all values; with `per_transaction`, so many in each transaction. */
    private void publish() throws Exception {
        int perTransaction = command.get("per_transaction").asInt();
        JsonNode values = command.get("values");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings(), new StringSerializer(), new StringSerializer())) {
            if (perTransaction == 0) {
                send(producer, values, 0, values.size());
                producer.flush();
                return;
            }
            producer.initTransactions();
            for (int first = 0; first < values.size(); first += perTransaction) {
                transact(producer, values, first, Math.min(first + perTransaction, values.size()));
            }
        }
    }

    /** Sends numbered values, one every `interval_ms`, until it is told to stop. */
    private void stream() throws Exception {
        String topic = command.get("topic").asText();
        String key = command.get("key").asText();
        String padding = command.get("padding").asText();
        int sent = 0;
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings(), new StringSerializer(), new StringSerializer())) {
            for (; !stopping.get(); sent++) {
                send(producer, new ProducerRecord<>(topic, key, key + ":" + sent + padding), sent);
                Thread.sleep(command.get("interval_ms").asInt());
            }
            producer.flush();
        }
        say("sent", sent);
    }

    /** Commits an offset of partition 0 for a group without members. */
    private void commit() {
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings(), new StringDeserializer(), new StringDeserializer())) {
            TopicPartition partition = new TopicPartition(command.get("topic").asText(), 0);
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(command.get("offset").asLong())));
        }
    }

    private void transact(KafkaProducer<String, String> producer, JsonNode values, int first, int end) {
        producer.beginTransaction();
        try {
            send(producer, values, first, end);
            producer.commitTransaction();
            say("committed", first);
        } catch (Exception error) {
            producer.abortTransaction();
            say("aborted", first, "because", name(error), "text", String.valueOf(error.getMessage()));
        }
    }

    private void send(KafkaProducer<String, String> producer, JsonNode values, int first, int end) {
        String topic = command.get("topic").asText();
        String key = command.get("key").asText();
        Long timestamp = command.hasNonNull("timestamp_ms") ? command.get("timestamp_ms").asLong() : null;
        for (int number = first; number < end; number++) {
            String value = values.get(number).asText();
            send(producer, new ProducerRecord<>(topic, null, timestamp, key, value), number);
        }
    }

    private void send(KafkaProducer<String, String> producer, ProducerRecord<String, String> one, int number) {
        producer.send(one, (placed, error) -> {
            if (error == null) {
                say("record", number, "partition", placed.partition(), "offset", placed.offset());
            } else {
                say("record", number, "failed", name(error), "text", String.valueOf(error.getMessage()));
            }
        });
    }

    /** Polls until it is told to stop or the consumer raises. */
    private void consume() {
        List<String> topics = new ArrayList<>();
        command.get("topics").forEach(topic -> topics.add(topic.asText()));
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings(), new StringDeserializer(), new StringDeserializer())) {
            if (topics.get(0).startsWith("^")) {
                consumer.subscribe(new SubscriptionPattern(topics.get(0)), new Assigned());
            } else if (command.get("settings").has("group.id")) {
                consumer.subscribe(topics, new Assigned());
            } else {
                consumer.assign(topics.stream().map(topic -> new TopicPartition(topic, 0)).toList());
                say("assigned", topics.size());
            }
            while (!stopping.get()) {
                List<List<Object>> received = new ArrayList<>();
                for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(100))) {
                    received.add(List.of(one.topic(), one.partition(), one.offset(), one.value(), one.timestamp()));
                }
                if (!received.isEmpty()) {
                    say("received", received, "at_ms", System.currentTimeMillis());
                }
            }
        }
    }

    /** Tells what a group gives to its member. */
    private final class Assigned implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
            say("assigned", assigned.size());
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
            say("revoked", revoked.size());
        }
    }

    private Properties settings() {
        Properties properties = new Properties();
        for (Map.Entry<String, JsonNode> setting : command.get("settings").properties()) {
            properties.put(setting.getKey(), setting.getValue().asText());
        }
        return properties;
    }

    private static String name(Throwable error) {
        return error.getClass().getSimpleName();
    }

    private void say(Object... fields) {
        Map<String, Object> event = new HashMap<>(Map.of("id", id));
        for (int at = 0; at < fields.length; at += 2) {
            event.put((String) fields[at], fields[at + 1]);
        }
        try {
            String line = JSON.writeValueAsString(event);
            synchronized (System.out) {
                System.out.println(line);
            }
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }
}
