package cost

import (
	"net"

	"github.com/valyala/fasthttp"
)

// serveProxy forwards each request to one address, and does nothing else: what a hop in fasthttp costs at least.
func serveProxy(ln net.Listener, to string) error {
	client := &fasthttp.HostClient{Addr: to, MaxConns: 1 << 16, StreamResponseBody: true} //nolint:forbidigo // the proxy is bare: nothing it retries matters
	s := &fasthttp.Server{Concurrency: 1 << 16, NoDefaultServerHeader: true, Handler: func(rc *fasthttp.RequestCtx) {
		resp := fasthttp.AcquireResponse()
		if err := client.Do(&rc.Request, resp); err != nil {
			rc.Error(err.Error(), fasthttp.StatusBadGateway)
			return
		}
		rc.SetContentTypeBytes(resp.Header.ContentType())
		if resp.Header.ContentLength() >= 0 {
			rc.SetBody(resp.Body())
			fasthttp.ReleaseResponse(resp)
			return
		}
		rc.SetBodyStream(resp.BodyStream(), -1)
	}}
	return s.Serve(ln)
}

const relayPiece = 4 << 10 // bytes of the buffer of each direction

// serveRelay relays bytes to an address, with a goroutine for each direction: what a session costs a hop at least.
func serveRelay(ln net.Listener, to string) error {
	for {
		client, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer client.Close()
			server, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			defer server.Close()
			go relay(server, client)
			relay(client, server)
		}()
	}
}

// relay copies bytes until either end is gone, and closes both. It does not splice, as a gateway that looks at messages cannot.
func relay(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	piece := make([]byte, relayPiece)
	for {
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		if _, err := to.Write(piece[:n]); err != nil {
			return
		}
	}
}
