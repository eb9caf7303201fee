import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileOutputStream;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Feed PORT DATABASE PASSWORD FOLDER: what two engines write of public.orders, one line per record, until standard input ends. */
public class Feed {
    static DebeziumEngine<?> engine(String name, Properties own, String[] told) throws Exception {
        Properties all = new Properties();
        all.setProperty("name", name);
        all.setProperty("connector.class", "io.debezium.connector.postgresql.PostgresConnector");
        all.setProperty("offset.storage", "org.apache.kafka.connect.storage.FileOffsetBackingStore");
        all.setProperty("offset.storage.file.filename", told[3] + "/" + name + ".offsets");
        all.setProperty("offset.flush.interval.ms", "0");
        all.setProperty("database.hostname", "127.0.0.1");
        all.setProperty("database.port", told[0]);
        all.setProperty("database.dbname", told[1]);
        all.setProperty("database.user", "capture");
        all.setProperty("database.password", told[2]);
        all.setProperty("topic.prefix", "shop");
        all.setProperty("table.include.list", "public.orders");
        all.setProperty("plugin.name", "pgoutput");
        all.setProperty("slot.name", name);
        all.setProperty("publication.name", name);
        all.setProperty("publication.autocreate.mode", "filtered");
        all.setProperty("skipped.operations", "none");
        all.putAll(own);
        PrintWriter out = new PrintWriter(
            new OutputStreamWriter(new FileOutputStream(told[3] + "/" + name + ".jsonl"), StandardCharsets.UTF_8));
        return DebeziumEngine.create(Json.class).using(all).notifying((ChangeEvent<String, String> event) -> {
            if (event.destination().equals("shop.public.orders")) {
                // Keys and values are JSON already; a value that is not there is null.
                out.println("{\"key\": " + event.key() + ", \"value\": " + event.value() + "}");
                out.flush();
            }
        }).build();
    }

    public static void main(String[] told) throws Exception {
        Properties plain = new Properties();
        plain.setProperty("converter.schemas.enable", "false");
        plain.setProperty("decimal.handling.mode", "string");
        plain.setProperty("time.precision.mode", "isostring");
        Properties wrapped = new Properties();
        wrapped.setProperty("converter.schemas.enable", "true");
        List<DebeziumEngine<?>> engines = List.of(engine("plain", plain, told), engine("wrapped", wrapped, told));
        ExecutorService pool = Executors.newFixedThreadPool(engines.size());
        engines.forEach(each -> pool.execute((Runnable) each));
        while (System.in.read() >= 0) {
        }
        for (DebeziumEngine<?> each : engines) each.close();
        pool.shutdown();
    }
}
