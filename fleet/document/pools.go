package document

import "colonnade/fleet"

// checkPool checks a layer of a pool.
func (d decoder) checkPool(tree map[string]any) *fieldError {
	var p fleet.Pool
	if err := d.decode(tree, &p); err != nil {
		return err
	}
	balance, _ := tree["balance"].(map[string]any)
	if weights, _ := balance["score"].(map[string]any); len(weights) == 3 && p.Balance.Score == (fleet.BalanceScore{}) {
		return (&fieldError{Field: "score", Value: "prefix 0, load 0, latency 0", Reason: "at least one weight must be above 0"}).in("balance")
	}
	return nil
}

// finishScore replaces weights that are 0 together, since layers set some of them each, by those that are built in.
func (r resolver) finishScore(s *fleet.BalanceScore) {
	var builtin fleet.Pool
	if *s == (fleet.BalanceScore{}) && (decoder{lenient: true, checked: true}).decode(r.set.builtin.kinds[fleet.KindPool], &builtin) == nil {
		*s = builtin.Balance.Score
	}
}
