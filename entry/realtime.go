package entry

import (
	"net/url"
	"slices"
	"strings"

	"colonnade/accounts"
	"colonnade/analytics"
	"colonnade/fleet"
	"colonnade/forwarding/netconn"
	"colonnade/forwarding/realtime"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/transport"
	"colonnade/openai"
)

const (
	// realtimeProtocol is the subprotocol that OpenAI's clients offer.
	realtimeProtocol = "realtime"
	// keyProtocol precedes an API key that comes as a subprotocol: browsers can set no header of a WebSocket.
	keyProtocol = "openai-insecure-api-key."
)

// receiveRealtime is receive for a WebSocket: there is a handshake instead of a body.
func (c *call) receiveRealtime(t *fleet.Table) *openai.Error {
	var err *openai.Error
	if c.handshake, err = relay.ReadHandshake(c.rc); err != nil {
		return err
	}
	key := accounts.Bearer(c.header("Authorization"))
	if inside := takeKey(c.handshake); key == "" {
		key = inside
	}
	if err = c.identifyBy(t, key); err != nil {
		return err
	}
	if origin := c.header("Origin"); origin != "" && !slices.Contains(t.Origins(), origin) {
		return openai.OriginNotAllowed(origin)
	}
	if err = c.resolve(t, c.route.Model); err != nil {
		return err
	}
	if c.model.Type != fleet.TypeRealtime {
		return openai.InvalidRequest("model", "the model %q is of type %s: only models of type realtime speak WebSocket", c.model.Name, c.model.Type)
	}
	return c.mayRun()
}

// takeKey takes the API key out of what a handshake offers, and everything else that is no subprotocol of ours.
func takeKey(h *transport.Handshake) (key string) {
	var kept []string
	for _, protocol := range h.Protocols {
		if inside, ok := strings.CutPrefix(protocol, keyProtocol); ok {
			key = inside
		}
		if protocol == realtimeProtocol && len(kept) == 0 {
			kept = append(kept, protocol)
		}
	}
	h.Protocols = kept
	return key
}

// line is the request line for a colo: its method, and its path with the query.
func (c *call) line() (method, path string) {
	if c.handshake == nil {
		return "POST", c.route.Path
	}
	return "GET", c.route.Path + "?model=" + url.QueryEscape(c.model.Name)
}

// handshakeOn is the handshake for a colo: our own, that offers what the client does.
func (c *call) handshakeOn() *transport.Handshake {
	if c.handshake == nil {
		return nil
	}
	return transport.NewHandshake(c.handshake.Protocols)
}

// tunnel joins the client to the colo that has taken the handshake, once the handler has returned. Nothing is tried
// again from here on.
func (c *call) tunnel(answer *transport.Response) {
	relay.SwitchProtocols(c.rc, c.handshake, answer)
	c.headers()
	tunnel := &realtime.Tunnel{Context: c.Context, Response: answer, Buffers: &c.entry.buffers, WriteStall: c.entry.config.WriteStall}
	c.Hijack(c.rc, func(client *netconn.Conn) {
		defer c.leave()
		c.logTunnel(tunnel.Run(client))
	})
}

// logTunnel ends a request that was a WebSocket.
func (c *call) logTunnel(end realtime.TunnelOutcome) {
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Partial = analytics.Outcome(end.Kind), end.Kind != relay.OutcomeCompleted
	e.Status, e.BytesIn, e.BytesOut = 101, end.BytesIn, end.BytesOut
	c.log(e)
}
