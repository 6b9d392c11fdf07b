package jwt

import (
	"slices"

	"github.com/golang-jwt/jwt/v5"

	"colonnade/accounts"
	"colonnade/fleet"
)

// callerOf returns the caller that the claims of a verified token describe: an account that is narrowed to what they allow. account is
// the one in the table.
func callerOf(t *fleet.Table, issuer *fleet.Issuer, claims jwt.MapClaims) (caller accounts.Caller, account *fleet.Account, err error) {
	name, _ := claims[issuer.Claims.Account].(string)
	if name == "" {
		return caller, nil, errNoAccount
	}
	account, ok := t.Account(name)
	if !ok {
		return caller, nil, errAccount
	}
	own := *account
	own.Admin = false // a token of an issuer chooses no colos
	if own.Models, err = allowedModels(account, claims, issuer.Claims.Models); err != nil {
		return caller, nil, err
	}
	if own.Priority, err = lowerPriority(account.Priority, claims, issuer.Claims.Priority); err != nil {
		return caller, nil, err
	}
	return accounts.Caller{Account: &own, KeyID: keyID(issuer.Name, claims)}, account, nil
}

// allowedModels returns the models that both the account and the claim allow; nil = all.
func allowedModels(account *fleet.Account, claims jwt.MapClaims, name string) ([]string, error) {
	claim, present := claims[name]
	if !present {
		return account.Models, nil
	}
	var named []string
	switch value := claim.(type) {
	case string:
		named = []string{value}
	case []any:
		for _, element := range value {
			name, ok := element.(string)
			if !ok {
				return nil, errModels
			}
			named = append(named, name)
		}
	default:
		return nil, errModels
	}
	allowed := []string{}
	for _, name := range named {
		if account.Models == nil || slices.Contains(account.Models, name) {
			allowed = append(allowed, name)
		}
	}
	return allowed, nil
}

// lowerPriority returns the lower one of the account's priority and that of the claim.
func lowerPriority(own string, claims jwt.MapClaims, name string) (string, error) {
	claim, present := claims[name]
	if !present {
		return own, nil
	}
	order := []string{fleet.PriorityInteractive, fleet.PriorityStandard, fleet.PriorityBatch}
	asked, _ := claim.(string)
	i := slices.Index(order, asked)
	if i < 0 {
		return "", errPriority
	}
	return order[max(i, slices.Index(order, own))], nil
}
