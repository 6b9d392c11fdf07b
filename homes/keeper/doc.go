// Package keeper runs the rules of package homes for one colo server: it keeps the server's record in the store, asks the processes of
// orphaned records and the other servers of the colo, and says where the server may grant.
//
// The goroutines that receive tables, records and registrations pass them to a [Keeper] by [Keeper.Apply], [Keeper.Observe],
// [Keeper.StopGrants] and [Keeper.Registered]; each call changes the grants in force before it returns. The keeper's own goroutines do what
// needs the network: one puts the record, one asks the processes of orphaned records, and one asks the siblings while the store does not
// answer, and the homes for which requests wait here.
package keeper
