package colo

import (
	"context"

	"colonnade/forwarding/peer"
	"colonnade/homes"
)

// Ask asks another server of the colo what its process owns and holds; see [peer.Client.Ask].
func (s *Server) Ask(ctx context.Context, to peer.Server, q peer.Question) (homes.Answer, error) {
	return s.client.Ask(ctx, to, q)
}

// SetGrants sets where the server may grant permits; see [admission.Manager.SetGrants].
func (s *Server) SetGrants(g *homes.Grants) {
	s.pools.SetGrants(g)
	s.takeovers.signal()
}

// RenewFence ends the use of permits that were granted and not yet sent; see [admission.Manager.Renew].
func (s *Server) RenewFence() { s.pools.Renew() }

// Held returns how many permits are held on each engine; see [admission.Manager.Held].
func (s *Server) Held() map[string]int { return s.pools.Held() }

// Limits returns the limits that were found for engines; see [admission.Manager.Limits].
func (s *Server) Limits() map[string]int { return s.pools.Limits() }

// StandIns returns how many requests wait in a pool because its home did not answer.
func (s *Server) StandIns(pool string) int { return s.pools.StandIns(pool) }

// RefuseStandIns refuses the requests that wait in a pool because its home did not answer.
func (s *Server) RefuseStandIns(pool string) { s.pools.RefuseStandIns(pool) }
