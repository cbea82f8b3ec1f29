import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Kafka's Java client at its defaults: each producer and each consumer is a client. */
final class KafkaClients implements Lines.Library {
    public static void main(String[] arguments) throws Exception {
        Lines.serve(new KafkaClients());
    }

    private static Properties settings(JsonNode command) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", command.get("address").asText());
        return settings;
    }

    @Override
    public Lines.Producer producer(JsonNode command) {
        return new Publishing(settings(command), command.get("topic").asText());
    }

    @Override
    public Lines.Consumer consumer(JsonNode command) throws Exception {
        Properties settings = settings(command);
        settings.put("auto.offset.reset", "earliest");
        boolean alone = command.get("alone").asBoolean();
        if (!alone) {
            settings.put("group.id", command.get("subscription").asText());
        }
        Reading reading = new Reading(settings, command.get("topic").asText(), alone);
        new Thread(reading::run).start();
        try {
            reading.joined.get();
        } catch (ExecutionException refused) {
            reading.over.get();
            throw new Lines.Refused(refused.getCause());
        }
        return reading;
    }

    /** A producer whose messages go to all partitions in turn. */
    private static final class Publishing implements Lines.Producer {
        private final KafkaProducer<byte[], byte[]> made;
        private final String topic;
        private final AtomicInteger numbers = new AtomicInteger();

        Publishing(Properties settings, String topic) {
            this.made = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
            this.topic = topic;
        }

        @Override
        public void publish(int size, JsonNode asked) throws Exception {
            int partition = numbers.getAndIncrement() % made.partitionsFor(topic).size();
            try {
                made.send(new ProducerRecord<>(topic, partition, null, new byte[size])).get();
            } catch (ExecutionException refused) {
                throw new Lines.Refused(refused.getCause());
            }
        }

        @Override
        public void close() {
            made.close();
        }
    }

    /** A member of a group or a reader of the first partition, polled by a thread of its own. */
    private static final class Reading implements Lines.Consumer, ConsumerRebalanceListener {
        final CompletableFuture<Boolean> joined = new CompletableFuture<>();
        final CompletableFuture<Boolean> over = new CompletableFuture<>();
        private final Properties settings;
        private final String topic;
        private final boolean alone;
        private final BlockingQueue<Lines.Message> come = new LinkedBlockingQueue<>();
        private volatile boolean stopping;

        Reading(Properties settings, String topic, boolean alone) {
            this.settings = settings;
            this.topic = topic;
            this.alone = alone;
        }

        /** Polls until it is told to stop or the consumer raises, which is what its user sees. */
        void run() {
            try (KafkaConsumer<byte[], byte[]> consumer =
                    new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                if (alone) {
                    consumer.assign(List.of(new TopicPartition(topic, 0)));
                } else {
                    consumer.subscribe(List.of(topic), this);
                }
                while (!stopping) {
                    for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofMillis(100))) {
                        double now = System.currentTimeMillis();
                        come.add(new Lines.Message(one.value().length, one.timestamp(), now, one));
                        joined.complete(true);
                    }
                }
            } catch (Throwable error) {
                joined.completeExceptionally(error);
            } finally {
                over.complete(true);
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
            joined.complete(true);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> revoked) {}

        @Override
        public Lines.Message receive(long withinMs) throws Exception {
            return come.poll(withinMs, TimeUnit.MILLISECONDS);
        }

        @Override
        public void acknowledge(Lines.Message message) {}

        @Override
        public void close() throws Exception {
            stopping = true;
            over.get();
        }
    }
}
