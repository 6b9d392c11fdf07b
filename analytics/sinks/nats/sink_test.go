package nats_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsclient "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
	"colonnade/analytics/sinks/nats"
	"colonnade/internal/faultproxy"
	"colonnade/internal/sinktest"
	"colonnade/internal/testkit"
)

func TestMain(m *testing.M) { testkit.VerifyMain(m) }

const subject = "colonnade.events"

// broker is a NATS server in the test's process, which keeps its streams when it is started again.
type broker struct {
	t       *testing.T
	options server.Options
	server  *server.Server
}

func newBroker(t *testing.T, options server.Options) *broker {
	t.Helper()
	options.Host, options.Port, options.JetStream, options.StoreDir, options.NoSigs, options.NoLog = "127.0.0.1", -1, true, t.TempDir(), true, true
	b := &broker{t: t, options: options}
	b.run()
	t.Cleanup(b.stop)
	return b
}

func (b *broker) run() {
	b.t.Helper()
	options := b.options
	s, err := server.NewServer(&options)
	if err != nil {
		b.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(testkit.Timeout) {
		b.t.Fatal("NATS does not start")
	}
	b.server, b.options.Port = s, options.Port
}

func (b *broker) stop() {
	b.server.Shutdown()
	b.server.WaitForShutdown()
}

func (b *broker) address() string { return fmt.Sprintf("127.0.0.1:%d", b.options.Port) }

// stream returns a connection of the test itself.
func (b *broker) stream(options ...natsclient.Option) jetstream.JetStream {
	b.t.Helper()
	conn, err := natsclient.Connect("nats://"+b.address(), options...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		b.t.Fatal(err)
	}
	return js
}

func (b *broker) create(config jetstream.StreamConfig, options ...natsclient.Option) {
	b.t.Helper()
	config.Name, config.Subjects = "EVENTS", []string{subject}
	if _, err := b.stream(options...).CreateOrUpdateStream(b.t.Context(), config); err != nil {
		b.t.Fatal(err)
	}
}

// has checks that the stream has the events from one number up to another but for some, each once.
func (b *broker) has(from, to int, but ...int) {
	b.t.Helper()
	stream, err := b.stream().Stream(b.t.Context(), "EVENTS")
	if err != nil {
		b.t.Fatal(err)
	}
	var got []string
	for n := uint64(1); n <= stream.CachedInfo().State.LastSeq; n++ {
		m, err := stream.GetMsg(b.t.Context(), n)
		if err != nil {
			b.t.Fatal(err)
		}
		got = append(got, strings.TrimSuffix(m.Header.Get("Nats-Msg-Id"), "-end"))
	}
	slices.Sort(got)
	want := sinktest.IDs(from, to)
	for _, n := range but {
		want = slices.DeleteFunc(want, func(id string) bool { return id == sinktest.Event(n).EventID })
	}
	if !slices.Equal(got, want) {
		b.t.Fatalf("the stream has %d events, want %d", len(got), len(want))
	}
}

func open(t *testing.T, address, settings string, env sinks.Environment) *nats.Sink {
	t.Helper()
	sink, err := nats.Open(sinktest.Spec(t, "nats://"+address+"/"+subject, settings), env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

func TestMessages(t *testing.T) {
	b := newBroker(t, server.Options{})
	b.create(jetstream.StreamConfig{})
	sink := open(t, b.address(), "", sinks.Environment{})
	batch := sinktest.Batch(t, 0, 3)
	sinktest.Send(t, sink, batch)
	sinktest.Send(t, sink, batch)                                                              // repeated
	sinktest.Send(t, open(t, b.address(), "", sinks.Environment{}), sinktest.Batch(t, 1, 500)) // after a restart, with more events
	b.has(0, 500)
	stream, _ := b.stream().Stream(t.Context(), "EVENTS")
	m, err := stream.GetMsg(t.Context(), 2)
	if err != nil || string(m.Data) != string(batch.Line(1)) || m.Subject != subject {
		t.Errorf("got %v, %v; want %s", m, err, batch.Line(1))
	}
}

func TestAwayAtStartAndInBetween(t *testing.T) {
	b := newBroker(t, server.Options{})
	b.create(jetstream.StreamConfig{})
	b.stop()
	sink := open(t, b.address(), "", sinks.Environment{})
	sinktest.Fails(t, sink, sinktest.Batch(t, 0, 10), false, b.address())
	b.run()
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 10))
	b.stop()
	sinktest.Fails(t, sink, sinktest.Batch(t, 10, 20), false, b.address())
	b.run()
	sinktest.Send(t, sink, sinktest.Batch(t, 10, 20))
	b.has(0, 20)
}

// A batch that is sent again is not there twice, after whichever byte of the answers the connection has ended.
func TestEndsAtAnyMoment(t *testing.T) {
	b := newBroker(t, server.Options{})
	b.create(jetstream.StreamConfig{})
	proxy := testkit.NewProxy(t, b.address())
	const size = 50
	moments := testkit.AtScale(100, 20)
	for i := range moments {
		proxy.InjectNext(faultproxy.Fault{Kind: faultproxy.Reset, Way: faultproxy.ToClient, At: int64(300 + i*7000/moments)})
		sink := open(t, proxy.Address, "", sinks.Environment{})
		sinktest.Send(t, sink, sinktest.Batch(t, i*size, (i+1)*size))
		_ = sink.Close()
	}
	b.has(0, moments*size)
}

func TestSilentServer(t *testing.T) {
	b := newBroker(t, server.Options{})
	b.create(jetstream.StreamConfig{})
	proxy := testkit.NewProxy(t, b.address())
	sink := open(t, proxy.Address, "", sinks.Environment{})
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 10))
	proxy.Inject(faultproxy.Fault{Kind: faultproxy.Stall, Way: faultproxy.ToClient})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := sink.Send(ctx, sinktest.Batch(t, 10, 20)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	proxy.Heal()
	sinktest.Send(t, sink, sinktest.Batch(t, 10, 20))
	b.has(0, 20)
}

// Servers that do not answer hold up the end of a process no longer than it allows, however many there are.
func TestSilentServersAtTheEnd(t *testing.T) {
	silent := testkit.Serve(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	sink := open(t, strings.Join([]string{testkit.Unreachable(t), silent, testkit.Unreachable(t)}, ","), "", sinks.Environment{})
	for _, after := range []time.Duration{0, 100 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		began := time.Now()
		err := sink.Send(ctx, sinktest.Batch(t, 0, 10))
		if took := time.Since(began); err == nil || took > 8*time.Second { // the client would give each server ten seconds
			t.Errorf("after %v: %v", took, err)
		}
		cancel()
	}
}

// A batch is sent as a whole before the first acknowledgement has come, however long it is.
func TestSlowAcknowledgements(t *testing.T) {
	b := newBroker(t, server.Options{})
	b.create(jetstream.StreamConfig{})
	proxy := testkit.NewProxy(t, b.address())
	sink := open(t, proxy.Address, "", sinks.Environment{})
	sinktest.Send(t, sink, sinktest.Batch(t, 0, 1))
	proxy.Inject(faultproxy.Fault{Kind: faultproxy.Stall, Way: faultproxy.ToClient})
	sent := make(chan error, 1)
	go func() { sent <- sink.Send(t.Context(), sinktest.Batch(t, 1, 6000)) }()
	testkit.WaitFor(t, "all messages in the stream", func() bool {
		stream, err := b.stream().Stream(t.Context(), "EVENTS")
		return err == nil && stream.CachedInfo().State.Msgs == 6000
	})
	proxy.Heal()
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// Of a batch with messages that the stream does not take, all others are taken.
func TestRefusedEvents(t *testing.T) {
	f := func(options server.Options, config jetstream.StreamConfig, length int) {
		t.Helper()
		b := newBroker(t, options)
		b.create(config)
		e := sinktest.Event(2)
		e.Model = strings.Repeat("m", length)
		batch := sinktest.BatchOf(t, "billing-1-0", sinktest.Event(0), sinktest.Event(1), e, sinktest.Event(3))
		err := open(t, b.address(), "", sinks.Environment{}).Send(t.Context(), batch)
		var rejected *ship.RejectedError
		if !errors.As(err, &rejected) || !slices.Equal(rejected.Events, []int{2}) || !strings.Contains(err.Error(), subject) {
			t.Errorf("got %v", err)
		}
		b.has(0, 4, 2)
	}
	f(server.Options{}, jetstream.StreamConfig{MaxMsgSize: 5000}, 6000)
	f(server.Options{MaxPayload: 5000}, jetstream.StreamConfig{}, 6000)
}

func TestErrors(t *testing.T) {
	fails := func(sink *nats.Sink, want ...string) {
		t.Helper()
		sinktest.Fails(t, sink, sinktest.Batch(t, 0, 5), false, want...)
	}
	open1 := func(address, settings string) *nats.Sink { return open(t, address, settings, sinks.Environment{}) }
	b := newBroker(t, server.Options{})
	fails(open1(b.address(), ""), "no stream of JetStream has it", "nats stream add EVENTS --subjects "+subject)
	fails(open1("127.0.0.1:1", ""), "127.0.0.1:1")
	sinktest.FailsCheck(t, open1("127.0.0.1:1", ""), "127.0.0.1:1")
	if err := open1(b.address(), "").Check(t.Context()); err != nil {
		t.Error(err)
	}

	allowed := &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"other"}}}
	b = newBroker(t, server.Options{Users: []*server.User{
		{Username: "writer", Password: "right"}, {Username: "other", Password: "right", Permissions: allowed},
	}})
	b.create(jetstream.StreamConfig{}, natsclient.UserInfo("writer", "right"))
	fails(open1(b.address(), ""), "check what credential names")
	fails(open(t, "writer@"+b.address(), "", sinktest.Secret("wrong")), "user=writer", "check what credential names")
	fails(open(t, "other@"+b.address(), "", sinktest.Secret("right")), "subject "+subject, "let the user publish")
	unset := errors.New("credential=env:X: it is not set")
	fails(open(t, "writer@"+b.address(), "", sinks.Environment{Credential: func() (string, error) { return "", unset }}), unset.Error())
	sinktest.Send(t, open(t, "writer@"+b.address(), "", sinktest.Secret("right")), sinktest.Batch(t, 0, 5))
	b = newBroker(t, server.Options{Authorization: "token"})
	b.create(jetstream.StreamConfig{}, natsclient.Token("token"))
	sinktest.Send(t, open(t, b.address(), "", sinktest.Secret("token")), sinktest.Batch(t, 0, 5))
}

func TestBadSettings(t *testing.T) {
	f := func(url, settings, want string) {
		t.Helper()
		if _, err := nats.Open(sinktest.Spec(t, url, settings), sinks.Environment{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
	}
	f("nats:///a", "", "the URL has no host")
	f("nats://host", "", "the URL needs a subject")
	f("nats://host/a.>", "", "without wildcards")
	f("nats://host/a/b", "", "without wildcards")
	f("nats://host/a..b", "", "the URL needs a subject")
	f("nats://host/a", "tls=yes", "tls=yes: must be true or false")
	f("nats://host/a", "ca=/x", "set both")
}
