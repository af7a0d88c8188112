// Package krb5 is the Kerberos mechanism of package gss (RFC 4121), over a
// library for tickets and cryptography.
//
// Its nouns: a Mechanism verifies the tickets that clients show, with the keys
// of a keytab; a Principal is a client, logged in at the KDC, that gets tickets
// for services; a message context signs and encrypts with the subkey that the
// acceptor chose. Encryption types: AES with SHA-1 (RFC 3962) and with SHA-2
// (RFC 8009); the older ones are refused.
package krb5

import (
	"encoding/asn1"
	"errors"
	"fmt"

	"manifold/xdr/rpc/gss"
)

// Service is the service that clients ask tickets for: nfs/HOST@REALM.
const Service = "nfs"

// OID is the mechanism's object identifier, 1.2.840.113554.1.2.2, in DER without
// tag and length, as SECINFO tells it.
const OID = "\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"

// Token identifiers (RFC 4121 section 4.1).
const (
	tokenAPReq = 0x0100
	tokenAPRep = 0x0200
	tokenError = 0x0300
)

// frame makes an initial context token: the mechanism, what kind of token, and
// the message (RFC 2743 section 3.1, RFC 4121 section 4.1).
func frame(kind uint16, message []byte) []byte {
	body := append([]byte{6, byte(len(OID))}, OID...)
	body = append(body, byte(kind>>8), byte(kind))
	body = append(body, message...)
	token, err := asn1.Marshal(asn1.RawValue{Class: asn1.ClassApplication, IsCompound: true, Bytes: body})
	if err != nil {
		panic(err) // a raw value always marshals
	}
	return token
}

// unframe takes a token apart.
func unframe(token []byte) (kind uint16, message []byte, err error) {
	var raw asn1.RawValue
	rest, err := asn1.Unmarshal(token, &raw)
	b := raw.Bytes
	switch {
	case err != nil:
		return 0, nil, &gss.Error{Major: gss.DefectiveToken, Err: err}
	case len(rest) != 0 || raw.Class != asn1.ClassApplication || raw.Tag != 0 || !raw.IsCompound || len(b) < 2 || b[0] != 6 || int(b[1]) > len(b)-2:
		return 0, nil, defective("not a context token")
	case string(b[2:2+b[1]]) != OID:
		return 0, nil, &gss.Error{Major: gss.BadMech, Err: errors.New("a mechanism other than Kerberos")}
	}
	if b = b[2+b[1]:]; len(b) < 2 {
		return 0, nil, defective("a context token without a message")
	}
	return uint16(b[0])<<8 | uint16(b[1]), b[2:], nil
}

func defective(format string, args ...any) error {
	return &gss.Error{Major: gss.DefectiveToken, Err: fmt.Errorf(format, args...)}
}
