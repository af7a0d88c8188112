package ns

import (
	"bytes"
	"encoding/binary"

	"manifold/layout"
	"manifold/mds/store"
	"manifold/xdr"
	"manifold/xdr/nfs4"
)

// Cluster is the rows that belong to no volume. It holds nothing itself. Its
// methods return ErrNoEnt for a row that is not there.
type Cluster struct{}

// ServiceRecord is what all metadata servers of one service share.
type ServiceRecord struct {
	ClusterID [16]byte // random, made once
	Boots     uint32   // raised by each start or takeover: the upper half of client ids
	Lease     uint32   // seconds, as clients were told since the last of them; 0: not known
}

// ClientRecord is a client that may have state: it is made when the client id
// is confirmed, so that what the client got can be taken away after a restart.
// Only one that is Complete lets it reclaim (RFC 8881 section 8.4.2.1): a client
// that missed a grace period, and was away again before it could know, would
// reclaim what others had in between (section 8.4.3).
type ClientRecord struct {
	ID        nfs4.ClientID
	Owner     []byte // co_ownerid, at most 1024 bytes
	Verifier  nfs4.Verifier
	Principal []byte // who made the client id, as the session layer writes it; at most 1024 bytes
	Complete  bool   // it has done RECLAIM_COMPLETE
}

// DSRecord is a data server that registered. Its number is never given to
// another.
type DSRecord struct {
	Number    layout.DSID
	UUID      [16]byte
	Name      string   // at most 255 bytes
	Addresses []string // host:port for clients; at most 32, 255 bytes each
	Draining  bool     // gets no new files
	Removed   bool     // gone for good; the record keeps the number taken
}

// Service returns the service's record.
func (Cluster) Service(tx store.Tx) (ServiceRecord, error) {
	var r ServiceRecord
	key := []byte{prefixService}
	d, found, err := getRow(tx, key, formService)
	if err != nil {
		return r, err
	}
	if !found {
		return r, nfs4.ErrNoEnt
	}
	copy(r.ClusterID[:], d.Fixed(len(r.ClusterID)))
	r.Boots = d.Uint32()
	if d.Remaining() > 0 { // earlier rows do not have it
		r.Lease = d.Uint32()
	}
	return r, closeRow(key, &d, true)
}

// PutService writes it.
func (Cluster) PutService(tx store.Tx, r ServiceRecord) error {
	e := newRow(formService, 32)
	e.Fixed(r.ClusterID[:])
	e.Uint32(r.Boots)
	e.Uint32(r.Lease)
	return putRow(tx, []byte{prefixService}, &e)
}

// Keyring returns the keys of the cluster, as layout writes them.
func (Cluster) Keyring(tx store.Tx) ([]byte, error) {
	key := []byte{prefixKeyring}
	d, found, err := getRow(tx, key, formKeyring)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, nfs4.ErrNoEnt
	}
	keys := bytes.Clone(d.Opaque(maxKeyring))
	return keys, closeRow(key, &d, true)
}

// PutKeyring writes them. ErrInval over 64 KiB.
func (Cluster) PutKeyring(tx store.Tx, keys []byte) error {
	if len(keys) > maxKeyring {
		return nfs4.ErrInval
	}
	e := newRow(formKeyring, 16+len(keys))
	e.Opaque(keys)
	return putRow(tx, []byte{prefixKeyring}, &e)
}

// Token returns the join token that data servers show, for metadata servers that
// share a store.
func (Cluster) Token(tx store.Tx) (string, error) {
	key := []byte{prefixToken}
	d, found, err := getRow(tx, key, formToken)
	if err != nil {
		return "", err
	}
	if !found {
		return "", nfs4.ErrNoEnt
	}
	token := d.String(maxString)
	return token, closeRow(key, &d, true)
}

// PutToken writes it. ErrInval over 255 bytes.
func (Cluster) PutToken(tx store.Tx, token string) error {
	if len(token) > maxString {
		return nfs4.ErrInval
	}
	e := newRow(formToken, 16+len(token))
	e.String(token)
	return putRow(tx, []byte{prefixToken}, &e)
}

// Client returns the record of a client id.
func (Cluster) Client(tx store.Tx, id nfs4.ClientID) (ClientRecord, error) {
	key := clientKey(uint64(id))
	row, err := tx.Get(key)
	if err != nil {
		return ClientRecord{}, err
	}
	if row == nil {
		return ClientRecord{}, nfs4.ErrNoEnt
	}
	return decodeClient(key, row)
}

func decodeClient(key, row []byte) (ClientRecord, error) {
	d, err := openRow(key, row, formClient)
	if err != nil || len(key) != 9 {
		return ClientRecord{}, corrupt(key, "client record")
	}
	r := ClientRecord{ID: nfs4.ClientID(binary.BigEndian.Uint64(key[1:]))}
	r.Owner = bytes.Clone(d.Opaque(maxOwner))
	copy(r.Verifier[:], d.Fixed(len(r.Verifier)))
	r.Principal = bytes.Clone(d.Opaque(maxOwner))
	r.Complete = d.Bool()
	return r, closeRow(key, &d, true)
}

// PutClient writes the record of r.ID; ErrInval if a field is over its bound.
func (Cluster) PutClient(tx store.Tx, r ClientRecord) error {
	if len(r.Owner) > maxOwner || len(r.Principal) > maxOwner {
		return nfs4.ErrInval
	}
	e := newRow(formClient, 64+len(r.Owner)+len(r.Principal))
	e.Opaque(r.Owner)
	e.Fixed(r.Verifier[:])
	e.Opaque(r.Principal)
	e.Bool(r.Complete)
	return putRow(tx, clientKey(uint64(r.ID)), &e)
}

// DeleteClient drops the record of a client id, if there is one.
func (Cluster) DeleteClient(tx store.Tx, id nfs4.ClientID) error {
	return tx.Delete(clientKey(uint64(id)))
}

// ScanClients calls fn for every client record until fn returns false.
func (Cluster) ScanClients(tx store.Tx, fn func(ClientRecord) (more bool, err error)) error {
	all := []byte{prefixClient}
	return tx.Scan(all, keyAfter(all), func(key, row []byte) (bool, error) {
		r, err := decodeClient(key, row)
		if err != nil {
			return false, err
		}
		return fn(r)
	})
}

// DS returns the record of a data server.
func (Cluster) DS(tx store.Tx, n layout.DSID) (DSRecord, error) {
	key := key32(prefixDS, uint32(n))
	row, err := tx.Get(key)
	if err != nil {
		return DSRecord{}, err
	}
	if row == nil {
		return DSRecord{}, nfs4.ErrNoEnt
	}
	return decodeDS(key, row)
}

func decodeDS(key, row []byte) (DSRecord, error) {
	d, err := openRow(key, row, formDS)
	if err != nil || len(key) != 5 {
		return DSRecord{}, corrupt(key, "data server record")
	}
	r := DSRecord{Number: layout.DSID(binary.BigEndian.Uint32(key[1:]))}
	copy(r.UUID[:], d.Fixed(len(r.UUID)))
	r.Name = d.String(maxString)
	r.Draining, r.Removed = d.Bool(), d.Bool()
	for range d.Count(maxAddresses, 4) {
		r.Addresses = append(r.Addresses, d.String(maxString))
	}
	return r, closeRow(key, &d, true)
}

// PutDS writes the record of r.Number; ErrInval if a field is over its bound.
func (Cluster) PutDS(tx store.Tx, r DSRecord) error {
	if r.Number == 0 || len(r.Name) > maxString || len(r.Addresses) > maxAddresses {
		return nfs4.ErrInval
	}
	e := newRow(formDS, 256)
	e.Fixed(r.UUID[:])
	e.String(r.Name)
	e.Bool(r.Draining)
	e.Bool(r.Removed)
	putStrings(&e, r.Addresses)
	for _, a := range r.Addresses {
		if len(a) > maxString {
			return nfs4.ErrInval
		}
	}
	return putRow(tx, key32(prefixDS, uint32(r.Number)), &e)
}

func putStrings(e *xdr.Encoder, ss []string) {
	e.Uint32(uint32(len(ss)))
	for _, s := range ss {
		e.String(s)
	}
}

// ScanDS calls fn for every data server's record, by number, until fn returns
// false. The number of a new one is the last record's and 1.
func (Cluster) ScanDS(tx store.Tx, fn func(DSRecord) (more bool, err error)) error {
	all := []byte{prefixDS}
	return tx.Scan(all, keyAfter(all), func(key, row []byte) (bool, error) {
		r, err := decodeDS(key, row)
		if err != nil {
			return false, err
		}
		return fn(r)
	})
}
