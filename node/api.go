package node

import (
	"fmt"
	"net"

	"colonnade/admin/api"
	"colonnade/change"
)

// openAPI makes the admin API, if the node has a file of tokens for it, or takes registrations of workers. Without documents, none says why there
// are none.
func (r *runtime) openAPI(documents *change.Documents, none string, registrar api.Registrar) error {
	c := &r.config
	if c.AdminTokens != "" {
		if err := r.openTokens(); err != nil {
			return err
		}
	} else if registrar.Put == nil {
		return nil
	}
	settings := api.Config{Node: c.Node, Tokens: r.tokens, Logger: c.Logger, Documents: documents, NoStore: none, Actions: r.actions(), Registrar: registrar}
	if r.client != nil {
		settings.CheckConfirm = r.checkConfirm
	}
	r.api = api.Handler(settings)
	return nil
}

// openTokens reads the file of tokens.
func (r *runtime) openTokens() error {
	c := &r.config
	tokens, err := api.OpenTokens(c.AdminTokens, c.Logger)
	if err != nil {
		return fmt.Errorf("flag -admin-tokens: %w", err)
	}
	r.tokens = tokens
	if address, ok := r.admin.Addr().(*net.TCPAddr); ok && !address.IP.IsLoopback() {
		c.Logger.Warn("the tokens of the admin API cross the network unencrypted: set -admin to a loopback address, and reach it through a tunnel", "admin", address.String())
	}
	return nil
}
