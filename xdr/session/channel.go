package session

import (
	"bytes"
	"slices"

	"manifold/xdr/nfs4"
)

const (
	// minForeOps is what Linux wants at least for ca_maxoperations.
	minForeOps = 8
	// minMessage is the smallest request or reply size, in bytes, with which
	// a lone SEQUENCE or CB_SEQUENCE can pass.
	minMessage = 128
	// minBackOps is CB_SEQUENCE and one operation.
	minBackOps = 2
	// generousFrom: Linux asks for a cached size that its largest OPEN reply
	// needs, but sends OPEN with LAYOUTGET, which needs more. A client that
	// asks for this many bytes or more gets MaxCached; one that asks for less
	// is taken at its word.
	generousFrom = 1024
)

// negotiateFore answers csa_fore_chan_attrs (RFC 8881 section 18.36.3).
// NFS4ERR_TOOSMALL: no SEQUENCE could pass.
func (t *Table) negotiateFore(a *nfs4.ChannelAttrs) (nfs4.ChannelAttrs, nfs4.Status) {
	if a.MaxRequestSize < minMessage || a.MaxResponseSize < minMessage || a.MaxOperations == 0 {
		return nfs4.ChannelAttrs{}, nfs4.ErrTooSmall
	}
	r := nfs4.ChannelAttrs{
		MaxRequestSize:        min(a.MaxRequestSize, t.cfg.MaxRequest),
		MaxResponseSize:       min(a.MaxResponseSize, t.cfg.MaxResponse),
		MaxResponseSizeCached: min(a.MaxResponseSizeCached, t.cfg.MaxCached),
		MaxOperations:         min(a.MaxOperations, t.cfg.MaxOps),
		MaxRequests:           max(min(a.MaxRequests, t.cfg.MaxSlots), 1),
	}
	if a.MaxResponseSizeCached >= generousFrom {
		r.MaxResponseSizeCached = t.cfg.MaxCached
	}
	r.MaxResponseSizeCached = min(r.MaxResponseSizeCached, r.MaxResponseSize)
	return r, nfs4.OK
}

// negotiateBack answers csa_back_chan_attrs: never more than was asked for.
// All zeros are fine from a client that wants no back channel.
func (t *Table) negotiateBack(a *nfs4.ChannelAttrs, wanted bool) (nfs4.ChannelAttrs, nfs4.Status) {
	zero := a.MaxRequestSize|a.MaxResponseSize|a.MaxOperations == 0
	if zero && !wanted {
		return nfs4.ChannelAttrs{}, nfs4.OK
	}
	if a.MaxRequestSize < minMessage || a.MaxResponseSize < minMessage || a.MaxOperations < minBackOps {
		return nfs4.ChannelAttrs{}, nfs4.ErrTooSmall
	}
	return nfs4.ChannelAttrs{
		MaxRequestSize:        min(a.MaxRequestSize, t.cfg.MaxRequest),
		MaxResponseSize:       min(a.MaxResponseSize, t.cfg.MaxResponse),
		MaxResponseSizeCached: min(a.MaxResponseSizeCached, t.cfg.MaxCached),
		MaxOperations:         min(a.MaxOperations, t.cfg.MaxOps),
		MaxRequests:           min(a.MaxRequests, t.cfg.MaxBackSlots),
	}, nfs4.OK
}

// chooseSec picks the callback security: AUTH_SYS rather than AUTH_NONE, and
// never RPCSEC_GSS. The result shares no memory with the request.
func chooseSec(offered []nfs4.CallbackSecParms) (sec nfs4.CallbackSecParms, ok bool) {
	for i := range offered {
		switch o := &offered[i]; {
		case o.Flavor == nfs4.SecFlavorSys && !(ok && sec.Flavor == nfs4.SecFlavorSys):
			sec, ok = *o, true
		case o.Flavor == nfs4.SecFlavorNone && !ok:
			sec, ok = nfs4.CallbackSecParms{Flavor: nfs4.SecFlavorNone}, true
		}
	}
	sec.Sys.MachineName = bytes.Clone(sec.Sys.MachineName)
	sec.Sys.GIDs = slices.Clone(sec.Sys.GIDs)
	return sec, ok
}
