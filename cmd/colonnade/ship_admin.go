package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"colonnade/admin"
	"colonnade/analytics/metrics"
	"colonnade/analytics/ship"
)

// serveAndShip ships, and serves the pages of the flag -admin meanwhile.
func (s *shipping) serveAndShip(ctx context.Context) error {
	if s.admin == "" {
		return s.ship(ctx)
	}
	listener, err := net.Listen("tcp", s.admin)
	if err != nil {
		return fmt.Errorf("-admin %s: cannot listen: %w", s.admin, err)
	}
	s.logger.Info("serving metrics and health", "admin", listener.Addr().String())
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var pages errgroup.Group
	pages.Go(func() error { return admin.Serve(serving, listener, s.pages(), s.logger) })
	err = s.ship(ctx)
	stop()
	return errors.Join(err, pages.Wait())
}

// pages returns the pages, which have the metrics of sinks as a node has them, with the label node.
func (s *shipping) pages() http.Handler {
	registry := metrics.NewRegistry()
	for _, node := range slices.Compact(slices.Sorted(slices.Values(s.nodes))) {
		metrics.RegisterSinks(metrics.WithNode(registry, node), func() []ship.Stats { return s.statsOf(node) })
	}
	return admin.Handler(admin.Config{Metrics: registry, Problems: s.problems})
}

// statsOf returns the state of each sink of a node.
func (s *shipping) statsOf(node string) (all []ship.Stats) {
	for i, shipper := range s.shipped {
		if s.nodes[i] == node {
			all = append(all, shipper.Stats())
		}
	}
	return all
}

// problems returns a line for each sink that fails, or for which events cannot be read.
func (s *shipping) problems() (lines []string) {
	for i, shipper := range s.shipped {
		stats := shipper.Stats()
		if stats.Failing != "" {
			lines = append(lines, fmt.Sprintf("%s → %s: failing: %s", s.nodes[i], stats.Name, stats.Failing))
		}
		if stats.Unreadable != "" {
			lines = append(lines, fmt.Sprintf("%s → %s: %s", s.nodes[i], stats.Name, stats.Unreadable))
		}
	}
	return lines
}
