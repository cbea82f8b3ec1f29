import com.fasterxml.jackson.databind.JsonNode;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TypedMessageBuilder;

/** Pulsar's Java client at its defaults: each producer and each consumer has a client of its own. */
final class PulsarClients implements Lines.Library {
    public static void main(String[] arguments) throws Exception {
        Lines.serve(new PulsarClients());
    }

    private static PulsarClient client(JsonNode command) throws PulsarClientException {
        return PulsarClient.builder().serviceUrl("pulsar://" + command.get("address").asText()).build();
    }

    @Override
    public Lines.Producer producer(JsonNode command) throws Exception {
        PulsarClient client = client(command);
        try {
            return new Publishing(client, client.newProducer().topic(command.get("topic").asText()).create());
        } catch (PulsarClientException refused) {
            client.closeAsync();
            throw new Lines.Refused(refused);
        }
    }

    @Override
    public Lines.Consumer consumer(JsonNode command) throws Exception {
        PulsarClient client = client(command);
        boolean exclusive = command.get("exclusive").asBoolean();
        try {
            return new Reading(
                    client,
                    client.newConsumer()
                            .topic(command.get("topic").asText())
                            .subscriptionName(command.get("subscription").asText())
                            .subscriptionType(exclusive ? SubscriptionType.Exclusive : SubscriptionType.Shared)
                            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                            .subscribe());
        } catch (PulsarClientException refused) {
            client.closeAsync();
            throw new Lines.Refused(refused);
        }
    }

    private record Publishing(PulsarClient client, Producer<byte[]> made) implements Lines.Producer {
        @Override
        public void publish(int size, JsonNode asked) throws Exception {
            TypedMessageBuilder<byte[]> message = made.newMessage().value(new byte[size]);
            if (asked.has("deliver_at")) {
                message.deliverAt(asked.get("deliver_at").asLong());
            }
            try {
                message.send();
            } catch (PulsarClientException refused) {
                throw new Lines.Refused(refused);
            }
        }

        @Override
        public void close() throws Exception {
            made.close();
            client.closeAsync();
        }
    }

    private record Reading(PulsarClient client, Consumer<byte[]> made) implements Lines.Consumer {
        @Override
        public Lines.Message receive(long withinMs) throws Exception {
            Message<byte[]> message = made.receive((int) withinMs, TimeUnit.MILLISECONDS);
            double now = System.currentTimeMillis();
            return message == null
                    ? null
                    : new Lines.Message(message.getData().length, message.getPublishTime(), now, message.getMessageId());
        }

        @Override
        public void acknowledge(Lines.Message message) throws Exception {
            made.acknowledge((org.apache.pulsar.client.api.MessageId) message.raw());
        }

        @Override
        public void close() throws Exception {
            made.close();
            client.closeAsync();
        }
    }
}
