package sim

import (
	"bytes"
	"context"
	"fmt"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

const cbProgram = 0x40000000

// cbSlot is a slot of a session's back channel.
type cbSlot struct {
	session nfs4.SessionID
	slot    uint32
}

// cbAnswer is what the client answered last on a slot.
type cbAnswer struct {
	seq    uint32
	status nfs4.Status
	never  bool
}

// ServeRPC answers callbacks: CB_COMPOUND with CB_SEQUENCE and a recall.
func (l *life) ServeRPC(ctx context.Context, _ *rpc.Conn, call *rpc.Call, out *rpc.Reply) {
	d := &call.Body
	var head nfs4.CBCompoundArgs
	head.DecodeXDR(d)
	var seq nfs4.CBSequenceArgs
	first := nfs4.CBOpNum(d.Uint32())
	seq.DecodeXDR(d)
	num := nfs4.CBOpNum(d.Uint32())
	var recall nfs4.CBLayoutRecallArgs
	if num == nfs4.CBLayoutRecall {
		recall.DecodeXDR(d)
	}
	if d.Err() != nil || first != nfs4.CBSequence || head.NumOps != 2 || call.Prog != cbProgram {
		l.w.fail("callback to %s makes no sense: %v, %v", l.name, first, d.Err())
		return
	}
	status, never := l.sequence(&seq, num, &recall)
	if never {
		<-ctx.Done()
		return
	}
	writeAnswer(&out.Enc, &seq, num, status)
}

// sequence answers a callback, once.
func (l *life) sequence(seq *nfs4.CBSequenceArgs, num nfs4.CBOpNum, recall *nfs4.CBLayoutRecallArgs) (s nfs4.Status, never bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slot := cbSlot{seq.SessionID, seq.SlotID}
	last := l.answered[slot]
	switch {
	case last == nil:
		last = &cbAnswer{}
		l.answered[slot] = last
	case last.seq == seq.SequenceID:
		return last.status, last.never
	case last.seq > seq.SequenceID:
		return nfs4.ErrDelay, true // an old one that took long
	}
	last.seq, last.status, last.never = seq.SequenceID, nfs4.ErrNotSupp, false
	if num == nfs4.CBLayoutRecall {
		last.status, last.never = l.recalled(recall)
	}
	return last.status, last.never
}

// recalled decides what to do about a recall. l.mu is held.
func (l *life) recalled(a *nfs4.CBLayoutRecallArgs) (s nfs4.Status, never bool) {
	var f *openFile
	for _, o := range l.files {
		switch {
		case !bytes.Equal(o.fh, a.Recall.FH):
		case o.layout != nil:
			f = o
		default:
			o.grown = 0 // too late to tell
		}
	}
	x := l.cbRnd.IntN(100)
	switch {
	case l.asking != nil && bytes.Equal(l.asking.fh, a.Recall.FH):
		s = nfs4.ErrDelay // what is recalled may be on its way here
	case f == nil:
		s = nfs4.ErrNoMatchingLayout
	case f.layout.id.Other != a.Recall.Stateid.Other:
		s = nfs4.ErrNoMatchingLayout // an earlier layout
	case x < 15:
		s = nfs4.ErrDelay
	case x < 25:
		s, never = nfs4.ErrDelay, true
	case x < 30:
		s = nfs4.OK // and nothing happens
	case x < 60 && !f.using && f.grown == 0:
		f.layout, s = nil, nfs4.ErrNoMatchingLayout
	default:
		f.recalled, s = true, nfs4.OK
		f.layout.id.Seqid = max(f.layout.id.Seqid, a.Recall.Stateid.Seqid)
	}
	if f != nil {
		l.w.judge.count(fmt.Sprintf("recall, %v", s))
	}
	l.log("is asked for a layout, %v: answers %v, or never: %t", a.Recall.Stateid, s, never)
	return s, never
}

// serveRecalls gives back what was promised.
func (l *life) serveRecalls() error {
	for _, f := range l.openFiles() {
		l.mu.Lock()
		due := f.recalled
		l.mu.Unlock()
		if !due {
			continue
		}
		l.w.judge.count("recall, returned")
		l.mu.Lock()
		f.recalled = false // flush goes on with it
		l.mu.Unlock()
		if err := f.returnLayout(); err != nil {
			return err
		}
	}
	return nil
}

// writeAnswer encodes CB_COMPOUND's result.
func writeAnswer(e *xdr.Encoder, seq *nfs4.CBSequenceArgs, num nfs4.CBOpNum, s nfs4.Status) {
	head := nfs4.CBCompoundRes{Status: s, NumRes: 2}
	head.EncodeXDR(e)
	e.Uint32(uint32(nfs4.CBSequence))
	e.Uint32(uint32(nfs4.OK))
	res := nfs4.CBSequenceRes{SessionID: seq.SessionID, SequenceID: seq.SequenceID, SlotID: seq.SlotID, HighestSlotID: 3, TargetHighestSlotID: 3}
	res.EncodeXDR(e)
	e.Uint32(uint32(num))
	e.Uint32(uint32(s))
}
