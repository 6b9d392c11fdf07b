package api

// actionRoutes are the operations on nodes and endpoints that change no document.
func (a *api) actionRoutes() []route { return nil }
