import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.ReaderBuilder;
import org.apache.pulsar.client.api.TypedMessageBuilder;
import org.apache.pulsar.client.api.transaction.Transaction;

/**
 * Stock Java clients that a test steers: one JSON object a line comes in for each thing to do, and one a line
 * goes out for each thing that happened. Everything that is asked for runs in a thread of its own, with a
 * client of its own, or with the one that is `shared` by a name; `client`, `producer` and `consumer` are what the library's loadConf takes.
 */
public final class Clients {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<Integer, Clients> RUNNING = new ConcurrentHashMap<>();
    private static final Map<String, PulsarClient> SHARED = new ConcurrentHashMap<>();

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
                RUNNING.get(clients.id).stopping.set(true);
            } else {
                RUNNING.put(clients.id, clients);
                new Thread(clients::run).start();
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private boolean does(String what) {
        return command.get("do").asText().equals(what);
    }

    private void run() {
        PulsarClient client = null;
        try {
            client = client();
            if (does("produce")) {
                produce(client);
            } else if (does("read")) {
                read(client);
            } else {
                consume(client);
            }
        } catch (Throwable error) {
            say("error", name(error), "text", text(error));
        }
        say("done", true);
        if (client != null && !command.hasNonNull("shared")) {
            client.closeAsync(); // ends its connections at once, and its threads two seconds later
        }
    }

    private PulsarClient client() throws Exception {
        if (!command.hasNonNull("shared")) {
            return PulsarClient.builder().loadConf(settings("client")).build();
        }
        synchronized (SHARED) {
            String name = command.get("shared").asText();
            if (!SHARED.containsKey(name)) {
                SHARED.put(name, PulsarClient.builder().loadConf(settings("client")).build());
            }
            return SHARED.get(name);
        }
    }

    /** Sends all values at once, or `per_transaction` in each transaction; stays attached until it is told to stop. */
    private void produce(PulsarClient client) throws Exception {
        ProducerBuilder<byte[]> builder = client.newProducer().loadConf(settings("producer"));
        if (command.hasNonNull("public_key")) {
            builder.defaultCryptoKeyReader(command.get("public_key").asText()).addEncryptionKey("tests");
        }
        int perTransaction = command.path("per_transaction").asInt();
        int values = command.get("values").size();
        try (Producer<byte[]> producer = builder.create()) {
            say("ready", producer.getProducerName());
            if (perTransaction == 0) {
                CompletableFuture.allOf(send(producer, null, 0, values)).exceptionally(error -> null).join();
            }
            for (int first = 0; perTransaction > 0 && first < values; first += perTransaction) {
                transact(client, producer, first, Math.min(first + perTransaction, values));
            }
            say("answered", values);
            while (!stopping.get()) {
                Thread.sleep(20);
            }
        }
    }

    private void transact(PulsarClient client, Producer<byte[]> producer, int first, int end) throws Exception {
        Transaction transaction = client.newTransaction().withTransactionTimeout(10, TimeUnit.MINUTES).build().get();
        try {
            CompletableFuture.allOf(send(producer, transaction, first, end)).join();
            transaction.commit().get();
            say("committed", first);
        } catch (Exception error) {
            transaction.abort().get();
            say("aborted", first, "because", name(error), "text", text(error));
        }
    }

    private CompletableFuture<?>[] send(Producer<byte[]> producer, Transaction transaction, int first, int end)
            throws Exception {
        List<CompletableFuture<?>> answers = new ArrayList<>();
        for (int number = first; number < end && !stopping.get(); number++) {
            int message = number;
            answers.add(described(producer, transaction, number).sendAsync().whenComplete((placed, error) -> {
                if (error == null) {
                    say("message", message, "ledger", ledger(placed), "entry", entry(placed), "at_ms", now());
                } else {
                    say("message", message, "failed", name(error), "text", text(error), "at_ms", now());
                }
            }));
            Thread.sleep(command.path("interval_ms").asInt());
        }
        return answers.toArray(new CompletableFuture<?>[0]);
    }

    private TypedMessageBuilder<byte[]> described(Producer<byte[]> producer, Transaction transaction, int number) {
        TypedMessageBuilder<byte[]> message =
                transaction == null ? producer.newMessage() : producer.newMessage(transaction);
        message.value(command.get("values").get(number).asText().getBytes(StandardCharsets.UTF_8));
        JsonNode keys = command.path("keys");
        if (!keys.isEmpty()) {
            message.key(keys.get(number % keys.size()).asText());
        }
        command.path("properties").properties().forEach(one -> message.property(one.getKey(), one.getValue().asText()));
        if (command.hasNonNull("deliver_after_ms")) {
            message.deliverAfter(command.get("deliver_after_ms").asLong(), TimeUnit.MILLISECONDS);
        }
        if (command.hasNonNull("deliver_at_ms")) {
            message.deliverAt(command.get("deliver_at_ms").asLong());
        }
        return message;
    }

    /** Receives until it is told to stop. The first `nacks` messages are refused, the others acknowledged. */
    private void consume(PulsarClient client) throws Exception {
        ConsumerBuilder<byte[]> builder = client.newConsumer().loadConf(settings("consumer"));
        if (command.hasNonNull("private_key")) {
            builder.defaultCryptoKeyReader(command.get("private_key").asText());
        }
        int nacks = command.path("nacks").asInt();
        boolean acknowledges = command.path("acknowledge").asBoolean(true);
        try (Consumer<byte[]> consumer = builder.subscribe()) {
            say("ready", consumer.getConsumerName());
            while (!stopping.get()) {
                Message<byte[]> message = consumer.receive(100, TimeUnit.MILLISECONDS);
                if (message == null) {
                    continue;
                }
                tell(message);
                if (nacks-- > 0) {
                    consumer.negativeAcknowledge(message);
                } else if (acknowledges) {
                    consumer.acknowledge(message);
                }
            }
        }
    }

    /** Reads from the topic's first message on until it is told to stop. */
    private void read(PulsarClient client) throws Exception {
        ReaderBuilder<byte[]> builder =
                client.newReader().loadConf(settings("reader")).startMessageId(MessageId.earliest);
        builder.defaultCryptoKeyReader(command.get("private_key").asText());
        try (Reader<byte[]> reader = builder.create()) {
            say("ready", true);
            while (!stopping.get()) {
                Message<byte[]> message = reader.readNext(100, TimeUnit.MILLISECONDS);
                if (message != null) {
                    tell(message);
                }
            }
        }
    }

    private void tell(Message<byte[]> message) {
        say(
                "value", new String(message.getValue(), StandardCharsets.UTF_8),
                "key", String.valueOf(message.getKey()),
                "properties", message.getProperties(),
                "topic", message.getTopicName(),
                "ledger", ledger(message.getMessageId()),
                "entry", entry(message.getMessageId()),
                "published_ms", message.getPublishTime(),
                "redelivered", message.getRedeliveryCount(),
                "at_ms", now());
    }

    private Map<String, Object> settings(String which) {
        return JSON.convertValue(command.get(which), new TypeReference<Map<String, Object>>() {});
    }

    private static long ledger(MessageId placed) {
        return ((MessageIdAdv) placed).getLedgerId();
    }

    private static long entry(MessageId placed) {
        return ((MessageIdAdv) placed).getEntryId();
    }

    private static long now() {
        return System.currentTimeMillis();
    }

    private static Throwable cause(Throwable error) {
        return error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
    }

    private static String name(Throwable error) {
        return cause(error).getClass().getSimpleName();
    }

    private static String text(Throwable error) {
        return String.valueOf(cause(error).getMessage());
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
