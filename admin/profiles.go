package admin

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"strconv"
	"sync"
)

// maxProfileSeconds bounds the time of a profile or trace, which slows the node down while it is taken.
const maxProfileSeconds = 60

// addProfiles adds the pages of package net/http/pprof. Profiles that take a time are taken one at a time.
func addProfiles(mux *http.ServeMux) {
	timed := new(sync.Mutex)
	index, profile, trace := http.HandlerFunc(pprof.Index), http.HandlerFunc(pprof.Profile), http.HandlerFunc(pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("seconds") == "" {
			index(w, r)
			return
		}
		serveTimed(timed, index, w, r)
	})
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/profile", func(w http.ResponseWriter, r *http.Request) { serveTimed(timed, profile, w, r) })
	mux.HandleFunc("GET /debug/pprof/trace", func(w http.ResponseWriter, r *http.Request) { serveTimed(timed, trace, w, r) })
}

// serveTimed serves a profile that takes a time, unless timed is locked by another one.
func serveTimed(timed *sync.Mutex, profile http.HandlerFunc, w http.ResponseWriter, r *http.Request) {
	if asked := r.FormValue("seconds"); asked != "" {
		if n, err := strconv.ParseUint(asked, 10, 16); err != nil || n < 1 || n > maxProfileSeconds {
			writeText(w, http.StatusBadRequest, fmt.Sprintf("seconds=%.40q: must be a whole number from 1 to %d\n", asked, maxProfileSeconds))
			return
		}
	}
	if !timed.TryLock() {
		writeText(w, http.StatusConflict, "another profile or trace is being taken: try again when it has ended\n")
		return
	}
	defer timed.Unlock()
	profile(w, r)
}
