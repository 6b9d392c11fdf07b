package faultproxy_test

import (
	"io"
	"testing"
	"time"

	"colonnade/internal/faultproxy"
	"colonnade/internal/testkit"
)

// echo sends back what it receives.
func (e *end) echo() { _, _ = io.Copy(e.TCPConn, e.TCPConn) }

// leastRoundTrip returns the least of n round trips of one byte.
func leastRoundTrip(client *end, n int) time.Duration {
	least := time.Hour
	for range n {
		began := time.Now()
		client.send("x")
		client.wantBytes("x")
		least = min(least, time.Since(began))
	}
	return least
}

// A round trip takes twice the delay, and hardly more: a delay of half a millisecond is no whole one. Half of that millisecond is for a
// machine that is busy.
func TestDelayIsExact(t *testing.T) {
	testkit.NeedsLinux(t, "sleeps for less than a millisecond as exactly")
	f := start(t)
	client, server := f.connect()
	go server.echo()
	for _, delay := range []time.Duration{500 * time.Microsecond, 4 * time.Millisecond} {
		f.Delay(delay)
		if got := leastRoundTrip(client, 25); got < 2*delay || got > 2*delay+500*time.Microsecond {
			t.Errorf("the least round trip with a delay of %v took %v", delay, got)
		}
	}
}

// A delay does not limit how many bytes are on their way, and keeps their order.
func TestDelayIsNoRate(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.Delay(200 * time.Millisecond)
	client, server := f.connect()
	const size = 8 << 20
	sent := make([]byte, size)
	for i := range sent {
		sent[i] = byte(i >> 10)
	}
	go func() { _, _ = client.Write(sent) }()
	began := time.Now()
	server.wantBytes(string(sent))
	if took := time.Since(began); took < 150*time.Millisecond || took > 10*time.Second { // 51 s, one read after the other
		t.Errorf("%d bytes took %v", size, took)
	}
}

// The end of a stream is delayed like its bytes, and the delay can be changed and ended.
func TestDelayOfEnd(t *testing.T) {
	t.Parallel()
	f := start(t)
	client, server := f.connect()
	f.Delay(50 * time.Millisecond)
	began := time.Now()
	client.CloseWrite()
	server.wantEnd()
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("the end took %v", took)
	}
	f.Delay(time.Hour)
	server.send("held")
	client.wantSilence()
	f.Delay(0)
	client.wantBytes("held")
}

// Heal gives a connection with a delay of its own that of the proxy again.
func TestSlowNextConnection(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.InjectNext(faultproxy.Fault{Kind: faultproxy.Slow, Way: faultproxy.ToServer, At: 2, Delay: time.Hour})
	client, server := f.connect()
	client.send("0123")
	server.wantBytes("01")
	server.wantSilence()
	f.Heal()
	server.wantBytes("23")
}

// BenchmarkRoundTrip measures a round trip through the proxy. Its result less twice the delay is the error of the delay.
func BenchmarkRoundTrip(b *testing.B) {
	for _, delay := range []time.Duration{0, 500 * time.Microsecond, 4 * time.Millisecond, 40 * time.Millisecond} {
		b.Run(delay.String(), func(b *testing.B) {
			f := start(b)
			f.Delay(delay)
			client, server := f.connect()
			go server.echo()
			for b.Loop() {
				client.send("x")
				client.wantBytes("x")
			}
		})
	}
}
