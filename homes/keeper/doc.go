// Package keeper runs the rules of package homes for one colo server: it keeps the server's record in the store, asks the processes of
// orphaned records and the other servers of the colo, and says where the server may grant.
//
// A [Keeper] learns of tables ([Keeper.Apply]), of records ([Keeper.Observe]) and of registrations ([Keeper.StopGrants],
// [Keeper.Registered]), by the goroutines that learn of them; each call changes the grants in force before it returns. Its own goroutines
// do what takes a network: one puts the record, one asks about orphaned records, and one asks the siblings while the store does not answer.
package keeper
