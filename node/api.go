package node

import (
	"fmt"
	"net"

	"colonnade/admin/api"
	"colonnade/change"
)

// openAPI makes the admin API, if the node has a file of tokens for it. Without documents, none says why there are none.
func (r *runtime) openAPI(documents *change.Documents, none string) error {
	c := &r.config
	if c.AdminTokens == "" {
		return nil
	}
	tokens, err := api.OpenTokens(c.AdminTokens, c.Logger)
	if err != nil {
		return fmt.Errorf("flag -admin-tokens: %w", err)
	}
	if address, ok := r.admin.Addr().(*net.TCPAddr); ok && !address.IP.IsLoopback() {
		c.Logger.Warn("the tokens of the admin API cross the network unencrypted: set -admin to a loopback address, and reach it through a tunnel", "admin", address.String())
	}
	settings := api.Config{Node: c.Node, Tokens: tokens, Logger: c.Logger, Documents: documents, NoStore: none, Actions: r.actions()}
	if r.client != nil {
		settings.CheckConfirm = r.checkConfirm
	}
	r.tokens = tokens
	r.api, err = api.Handler(settings)
	return err
}
