package transport_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/internal/testkit"
)

// echo is a response that names the connection and the request that it answers.
func echo(text string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
}

// moment is when turnEngine says something that was not asked for.
type moment uint8

const (
	behind  moment = iota // in one piece with its first answer
	idle                  // before the next request
	between               // after the connection was taken for the next request, and before that was sent
	within                // when it has the head of the next request, and not yet its long body
	late                  // when it has the next request
)

// turnEngine says something more on its first connection, once, at a moment. It answers each request with the number of its connection.
type turnEngine struct {
	says  string
	when  moment
	speak chan struct{} // received from before it says so between
	said  chan struct{} // closed when it has

	mu    sync.Mutex // guards the field below
	conns int
}

func (e *turnEngine) serve(c net.Conn) {
	e.mu.Lock()
	e.conns++
	number := e.conns
	e.mu.Unlock()
	br := bufio.NewReader(c)
	for n := 1; ; n++ {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if number == 1 && n == 2 && e.when == within {
			_, _ = io.WriteString(c, e.says)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		answer := echo(fmt.Sprint(number))
		first := number == 1 && n == 1
		switch {
		case first && e.when == behind:
			answer += e.says
		case number == 1 && n == 2 && e.when == late:
			answer = e.says + answer
		}
		_, _ = io.WriteString(c, answer)
		switch {
		case first && e.when == between:
			<-e.speak
			fallthrough
		case first && e.when == idle:
			_, _ = io.WriteString(c, e.says)
		}
		if first {
			close(e.said)
		}
	}
}

// exchangeThrice makes three requests of the engine, and returns the bodies of the responses.
func (e *turnEngine) exchangeThrice(t *testing.T, target transport.Target, tr *transport.Transport) (bodies []string) {
	t.Helper()
	for n := range 3 {
		r := forwardtest.NewRequest("")
		r.Target = target
		if e.when == within {
			r.Body = make([]byte, 8<<20) // more than the sockets hold
		}
		if n == 1 && e.when == between {
			r.Precondition = sync.OnceValue(func() bool {
				close(e.speak)
				<-e.said
				time.Sleep(5 * time.Millisecond) // to arrive
				return true
			})
		}
		a, err := tr.Do(context.Background(), r, forwardtest.ChatOptions)
		if err != nil {
			t.Fatalf("request %d: %v", n+1, err)
		}
		body, _ := a.Body()
		bodies = append(bodies, fmt.Sprint(a.Status(), " ", string(body)))
		a.Close()
		if n == 0 && e.when == idle {
			<-e.said
			time.Sleep(5 * time.Millisecond) // to arrive
		}
	}
	return bodies
}

// No request gets for its answer what a server says while none waits for it. Then no connection to that server is kept; unless it said only
// empty lines, or why it closes the connection.
func TestOutOfTurn(t *testing.T) {
	t.Parallel()
	const (
		kept   = "200 1, 200 1, 200 1"
		once   = "200 1, 200 2, 200 2"
		always = "200 1, 200 2, 200 3"
		second = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
		closes = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
		fails  = "HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\nevil"
	)
	for _, c := range []struct {
		name, says string
		when       moment
		want       string
		distrusted int
	}{
		{"an answer behind the answer", second, behind, always, 1},
		{"an answer before the next request", second, idle, always, 1},
		{"an answer while the next request is sent", second, between, always, 1},
		{"an error behind the answer", fails, behind, always, 1},
		{"an error before the next request", fails, idle, always, 1},
		{"an error while the next request is sent", fails, between, always, 1},
		{"an answer while a long request is sent", second, within, always, 1},
		{"an error while a long request is sent", fails, within, once, 0}, // it may be the answer to the head
		{"one byte while a long request is sent", "x", within, always, 1},
		{"an empty line while a long request is sent", "\r\n", within, kept, 0},
		{"one byte behind the answer", "x", behind, always, 1},
		{"one byte before the next request", "x", idle, always, 1},
		{"one byte while the next request is sent", "x", between, always, 1},
		{"an empty line and an answer", "\r\n" + second, idle, always, 1},
		{"an empty line behind the answer", "\r\n", behind, kept, 0},
		{"an empty line before the next request", "\r\n", idle, kept, 0},
		{"an empty line while the next request is sent", "\r\n", between, kept, 0},
		{"an empty line before the next answer", "\r\n", late, kept, 0},
		{"several empty lines behind the answer", "\r\n\r\n\r\n", behind, kept, 0},
		{"several empty lines before the next request", "\r\n\r\n\r\n", idle, kept, 0},
		{"several empty lines before the next answer", "\r\n\r\n\r\n", late, kept, 0},
		{"many empty lines before the next request", strings.Repeat("\r\n", 100), idle, once, 0},
		{"why it closes the connection", closes, idle, once, 0},
	} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, TLS %v", c.name, secure), func(t *testing.T) {
				t.Parallel()
				e := &turnEngine{says: c.says, when: c.when, speak: make(chan struct{}), said: make(chan struct{})}
				var target transport.Target
				if secure {
					target = tlsServer(t, func(c *tls.Conn) { e.serve(c) })
				} else {
					address := forwardtest.ListenRaw(t, e.serve)
					target = transport.Target{Address: address, Host: address}
				}
				tr := forwardtest.NewTransport(t)
				if got := strings.Join(e.exchangeThrice(t, target, tr), ", "); got != c.want {
					t.Errorf("answered %s, want %s", got, c.want)
				}
				if n := tr.Distrusted(); n != c.distrusted {
					t.Errorf("%d servers are distrusted, want %d", n, c.distrusted)
				}
				if kept := tr.Idle() > 0; kept != (c.distrusted == 0) {
					t.Errorf("a connection is kept: %v", kept)
				}
			})
		}
	}
}

// An empty line may be the last that a server sends before it closes an idle connection.
func TestClosedBehindAnEmptyLine(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{}, 10)
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		if _, err := forwardtest.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		_, _ = io.WriteString(c, echo("ok"))
		time.Sleep(2 * time.Millisecond) // so that it comes in a piece of its own
		_, _ = io.WriteString(c, "\r\n")
		c.Close()
		closed <- struct{}{}
	})
	tr := forwardtest.NewTransport(t)
	for range 3 {
		a, err := tr.Do(t.Context(), forwardtest.NewRequest(address), forwardtest.ChatOptions)
		if err != nil {
			t.Fatal(err)
		}
		a.Close()
		forwardtest.Receive(t, "the end of the connection", closed)
		time.Sleep(2 * time.Millisecond) // to arrive
	}
}

// A request that must not be sent fails, and costs only one of the kept connections.
func TestInvalidRequestLeavesConnections(t *testing.T) {
	t.Parallel()
	const conns = 3
	var arrived, answered sync.WaitGroup
	arrived.Add(conns)
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		if _, err := forwardtest.ReadRequest(br); err != nil {
			return
		}
		arrived.Done()
		arrived.Wait()
		_, _ = io.WriteString(c, plainAnswer)
		_, _ = forwardtest.ReadRequest(br)
	})
	tr := forwardtest.NewTransport(t)
	for range conns {
		answered.Go(func() {
			if a, err := tr.Do(t.Context(), forwardtest.NewRequest(address), forwardtest.ChatOptions); err != nil {
				t.Error(err)
			} else {
				a.Close()
			}
		})
	}
	answered.Wait()
	r := forwardtest.NewRequest(address)
	r.Path = "/v1/a b"
	if _, err := tr.Do(t.Context(), r, forwardtest.ChatOptions); err == nil {
		t.Error("it was sent")
	}
	if n := tr.Idle(); n != conns-1 {
		t.Errorf("%d connections are kept of %d", n, conns)
	}
}

// A server that refuses a request by its head, on a kept connection, is not taken for one that speaks out of turn.
func TestEarlyRefusalOnKeptConnection(t *testing.T) {
	t.Parallel()
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		for range 2 {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if r.ContentLength > 100 {
				_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
				_, _ = io.Copy(io.Discard, c)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(c, echo("ok"))
		}
	})
	tr := forwardtest.NewTransport(t)
	for _, c := range []struct{ size, status int }{{10, 200}, {1 << 20, 413}, {10, 200}, {1000, 413}} {
		r := forwardtest.NewRequest(address)
		r.Body = make([]byte, c.size)
		a, err := tr.Do(t.Context(), r, forwardtest.ChatOptions)
		if err != nil {
			t.Fatal(err)
		}
		if a.Status() != c.status {
			t.Errorf("%d bytes: answered %d, want %d", c.size, a.Status(), c.status)
		}
		a.Close()
	}
	if n := tr.Distrusted(); n != 0 {
		t.Error("the server is distrusted")
	}
}

// An engine sends each answer a second time, some milliseconds later, while two accounts send requests in turns. None gets an answer to the
// other's, wherever the second answer arrives.
func TestSecondAnswersReachNoOtherAccount(t *testing.T) {
	t.Parallel()
	var delays sync.Map // by address of the client
	address := forwardtest.ListenRaw(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		for n := 0; ; n++ {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			account, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(c, echo(string(account)))
			answered := time.Now()
			delay, _ := delays.Load(r.Host)
			time.Sleep(delay.(time.Duration))
			if time.Since(answered) > 50*time.Millisecond {
				continue // this machine is too busy to be that late on purpose
			}
			_, _ = io.WriteString(c, echo(string(account)))
		}
	})
	rounds, found, own := testkit.AtScale(250, 2500), 0, 0
	for round := range rounds {
		tr := forwardtest.NewTransport(t) // which trusts the engine
		host := fmt.Sprintf("round-%d", round)
		delays.Store(host, time.Duration(round%9)*time.Millisecond/2)
		for n := range 6 {
			account := fmt.Sprintf("account %d", n%2)
			r := forwardtest.NewRequest(address)
			r.Target.Host, r.Account, r.Body = host, account, []byte(account)
			a, err := tr.Do(t.Context(), r, forwardtest.ChatOptions)
			if err != nil {
				t.Fatal(err)
			}
			if body, _ := a.Body(); string(body) != account {
				t.Fatalf("round %d: %s got %q", round, account, body)
			}
			a.Close()
		}
		found += tr.Distrusted()
		own += tr.Idle()
	}
	t.Logf("found out in %d of %d rounds, %d connections kept", found, rounds, own)
}
