package onebox

import "colonnade/forwarding"

// Keys are those of the fleet, for tests that speak to colo servers as an entry does.
func (f *Fleet) Keys() *forwarding.Keys { return f.keys }
