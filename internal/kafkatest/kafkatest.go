// Package kafkatest runs a broker of Apache Kafka for tests.
package kafkatest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"colonnade/internal/testkit"
)

// Broker is a Kafka on loopback that keeps its data until the end of the test, also when it is killed.
type Broker struct {
	t       testing.TB
	jars    string // as a class path
	dir     string
	address string
	process *exec.Cmd
}

// Start makes a cluster of one broker, which ends with the test. The test is skipped where there is no Java or no Kafka: .ci/run copies its jars
// into var/kafka.
func Start(t testing.TB) *Broker {
	t.Helper()
	b := &Broker{t: t, jars: filepath.Join(findJars(t), "*"), dir: t.TempDir(), address: freeAddress(t)}
	settings := fmt.Sprintf(`process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://%[1]s,CONTROLLER://%[2]s
advertised.listeners=PLAINTEXT://%[1]s
controller.listener.names=CONTROLLER
controller.quorum.voters=1@%[2]s
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=%[3]s
num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
`, b.address, freeAddress(t), filepath.Join(b.dir, "data"))
	if err := os.WriteFile(b.settings(), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := b.java("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", b.settings()).CombinedOutput(); err != nil {
		t.Fatalf("cannot format the storage of Kafka: %v\n%s", err, out)
	}
	t.Cleanup(b.Kill)
	b.Run()
	return b
}

// findJars returns the directory of Kafka's jars.
func findJars(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("java"); err != nil {
		t.Skip("needs java in the PATH")
	}
	for up := "."; len(up) < 40; up = filepath.Join(up, "..") {
		if found, _ := filepath.Glob(filepath.Join(up, "var", "kafka", "kafka_*.jar")); len(found) > 0 {
			return filepath.Dir(found[0])
		}
	}
	t.Skip("needs the jars of Kafka: mvn -f internal/kafkatest dependency:copy-dependencies")
	return ""
}

func freeAddress(t testing.TB) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	return free.Addr().String()
}

func (b *Broker) settings() string { return filepath.Join(b.dir, "server.properties") }

func (b *Broker) java(class string, args ...string) *exec.Cmd {
	return exec.Command("java", append([]string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", b.jars, class}, args...)...)
}

// Address returns host and port.
func (b *Broker) Address() string { return b.address }

// Run starts the broker again after Kill, at the same address and with its data.
func (b *Broker) Run() {
	b.t.Helper()
	var out bytes.Buffer
	b.process = b.java("kafka.Kafka", b.settings())
	b.process.Stdout, b.process.Stderr = &out, &out
	if err := b.process.Start(); err != nil {
		b.t.Fatal(err)
	}
	testkit.WaitFor(b.t, "Kafka", func() bool {
		conn, err := net.Dial("tcp", b.address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// Kill ends the broker by SIGKILL.
func (b *Broker) Kill() {
	if b.process != nil {
		_ = b.process.Process.Signal(syscall.SIGKILL)
		_ = b.process.Wait()
		b.process = nil
	}
}
