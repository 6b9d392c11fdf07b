package hop

// Issuers returns how many issuers the guard knows.
func (g *ReplayGuard) Issuers() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.windows)
}

// AppendPayload is Token.appendPayload.
func AppendPayload(dst []byte, t *Token) ([]byte, error) { return t.appendPayload(dst) }

// ParsePayload is Token.parsePayload.
func ParsePayload(payload string) (t Token, err error) {
	err = t.parsePayload(payload)
	return t, err
}
