package colo

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"colonnade/forwarding/transport"
	"colonnade/openai"
)

const (
	engineLogInterval = 2 * time.Second // between two log lines about one engine, in the long run
	engineLogBurst    = 8
	maxEngineLogs     = 4096 // engines and classes
)

// engineLog bounds the log lines about what engines say. The zero value is ready.
type engineLog struct {
	mu       sync.Mutex // guards the field below
	limiters map[engineLogKey]*rate.Limiter
}

type engineLogKey struct {
	url   string
	class openai.EngineClass
}

// allow reports whether a line about the engine at url may be written now.
func (l *engineLog) allow(url string, class openai.EngineClass) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := engineLogKey{url, class}
	limiter := l.limiters[key]
	if limiter == nil {
		if l.limiters == nil || len(l.limiters) >= maxEngineLogs {
			l.limiters = map[engineLogKey]*rate.Limiter{}
		}
		limiter = rate.NewLimiter(rate.Every(engineLogInterval), engineLogBurst)
		l.limiters[key] = limiter
	}
	return limiter.Allow()
}

// logEngineWords logs what the engine said in place of an answer, at a bounded rate.
func (c *call) logEngineWords(class openai.EngineClass, answer *transport.Response) {
	e := c.grant.Endpoint
	if !c.server.engineLog.allow(e.URL, class) {
		return
	}
	log := c.server.config.Logger
	fields := []any{"endpoint", e.ID, "url", e.URL, "status", answer.Status(), "model", c.model.Name, "path", c.request.Route.Path, "said", c.engineWords(answer)}
	switch class {
	case openai.ClientError:
		log.Info("engine refused a request", fields...)
	case openai.Full:
		log.Info("engine is full", fields...)
	case openai.Misconfigured:
		log.Warn("endpoint misconfigured", fields...)
	default:
		log.Warn("engine failed", fields...)
	}
}

// engineWords returns what the engine said, as a log may have it.
func (c *call) engineWords(answer *transport.Response) string {
	if answer.NotAPI() {
		return "a web page, or a content coding that was not asked for"
	}
	return openai.EngineWords(answer.ErrorBody(), c.model.Name, c.grant.Endpoint.NameOf(c.model), c.request.Route.Path)
}
