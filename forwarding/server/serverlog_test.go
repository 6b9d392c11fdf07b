package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
)

func TestDescribePanic(t *testing.T) {
	f := func(panics func(), want string) {
		t.Helper()
		defer func() {
			t.Helper()
			if got := DescribePanic(recover()); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}()
		panics()
	}
	var none []int
	f(func() { _ = none[len(t.Name())] }, "runtime error: index out of range [17] with length 0")
	f(func() { panic("a prompt") }, "a string")
	f(func() { panic(errors.New("a prompt")) }, "a *errors.errorString")
}

func TestServerLogQuotesNoRequest(t *testing.T) {
	var text strings.Builder
	l := serverLog{slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	f := func(err error, want string) {
		t.Helper()
		text.Reset()
		l.Printf("error when serving connection %q<->%q: %v", "1.2.3.4:5", "6.7.8.9:10", fmt.Errorf("%q: %w", "canary", err))
		if got := text.String(); !strings.Contains(got, want) || !strings.Contains(got, "1.2.3.4:5") || strings.Contains(got, "canary") {
			t.Errorf("%v: logged %q, want %q", err, got, want)
		}
	}
	f(errors.New("malformed header"), "the request is not well-formed HTTP/1.1")
	f(&net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset")}, "read tcp: connection reset")
}
