package onebox

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// awaitReady waits until the entry is ready and knows every colo server, and each of these knows the others of its colo. The
// readiness of the entry means only that it knows one.
func (b *allInOne) awaitReady(ctx context.Context) error {
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for !b.isReady(ctx, client) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func (b *allInOne) isReady(ctx context.Context, client *http.Client) bool {
	if _, ready := read(ctx, client, b.fleet.Entry.Admin, "/health/ready"); !ready || !b.knows(ctx, client, b.fleet.Entry.Admin, "") {
		return false
	}
	for _, s := range b.fleet.Colos {
		if b.config.serversOf(s.Colo) > 1 && !b.knows(ctx, client, s.Admin, s.Colo) {
			return false
		}
	}
	return true
}

// knows reports whether a node knows every server of a colo; empty = of all colos.
func (b *allInOne) knows(ctx context.Context, client *http.Client, admin, colo string) bool {
	table, known := read(ctx, client, admin, "/debug/fleet")
	for _, s := range b.fleet.Colos {
		if colo == "" || colo == s.Colo {
			known = known && strings.Contains(table, fmt.Sprintf("%q", "servers/"+s.Colo+"/"+s.Node))
		}
	}
	return known
}

// read returns the text of an admin page; false if it cannot be read (yet).
func read(ctx context.Context, client *http.Client, admin, page string) (string, bool) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+Local(admin)+page, nil)
	if err != nil {
		return "", false
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", false
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err == nil && answer.StatusCode == http.StatusOK
}
