package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"colonnade/discovery/etcd"
	"colonnade/internal/etcdtest"
	"colonnade/node"
)

// fakeNode is what the admin listener of a node serves.
type fakeNode struct {
	config   func() node.ConfigState
	pools    func() string // JSON
	notReady string        // the reason; empty: it is ready
}

// configured is a node that reports a state of its documents, and no pools.
func configured(c node.ConfigState) fakeNode {
	return fakeNode{config: func() node.ConfigState { return c }, pools: func() string { return "[]" }}
}

// pooled is a colo server that reports pools.
func pooled(name, pools string) fakeNode {
	n := configured(node.ConfigState{Node: name})
	n.pools = func() string { return pools }
	return n
}

// serve serves the pages until the test's end, and returns the listener's address.
func (n fakeNode) serve(t *testing.T) string {
	t.Helper()
	return serveHandler(t, n.handler())
}

func (n fakeNode) handler() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/config", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(n.config()) })
	mux.HandleFunc("GET /debug/pools", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, n.pools()) })
	mux.HandleFunc("GET /health/ready", func(w http.ResponseWriter, _ *http.Request) {
		if n.notReady != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, n.notReady)
		}
	})
	return mux
}

func serveHandler(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// registered is the document of a colo server with an admin address.
func registered(admin string) string {
	return fmt.Sprintf(`{"address":"127.0.0.1:1","admin":%q,"boot":"x"}`, admin)
}

// register puts the document of a colo server whose admin listener is served.
func (n fakeNode) register(t *testing.T, s *etcdtest.Server, key string) (admin string) {
	t.Helper()
	admin = n.serve(t)
	put(t, s, map[string]string{key: registered(admin)})
	return admin
}

// revisionOf returns the revision of a document, or that of etcd if there is none.
func revisionOf(t *testing.T, s *etcdtest.Server, key string) int64 {
	t.Helper()
	docs, revision, err := etcd.List(t.Context(), s.Client(t), node.Prefix, key)
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) == 1 {
		return docs[0].Revision
	}
	return revision
}
