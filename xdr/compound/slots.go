package compound

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"manifold/xdr/nfs4"
	"manifold/xdr/session"
)

// recallTime bounds one CB_RECALL_SLOT.
const recallTime = 10 * time.Second

// tune adjusts the slot tables, and tells clients by CB_RECALL_SLOT to give
// slots back, in the background until ctx ends.
func (s *Server) tune(ctx context.Context, now time.Time) {
	s.mu.Lock()
	recalls, scarce := s.cfg.Sessions.Tune(now)
	changed := scarce != s.scarce
	s.scarce = scarce
	use := s.cfg.Sessions.SlotUse()
	s.mu.Unlock()
	if changed {
		fields := []zap.Field{zap.Int("sessions", use.Sessions), zap.Int("slots", use.Granted), zap.Int64("bytes", use.CacheBytes)}
		if scarce {
			s.cfg.Log.Warn("memory for reply caches is scarce: clients are asked for the slots they do not use", fields...)
		} else {
			s.cfg.Log.Info("memory for reply caches is not scarce any more", fields...)
		}
	}
	for _, r := range recalls {
		go s.recallSlots(ctx, r)
	}
}

// recallSlots tells one client. What it answers does not matter: what it says in
// its next SEQUENCEs does.
func (s *Server) recallSlots(ctx context.Context, r session.SlotRecall) {
	ctx, cancel := context.WithTimeout(ctx, recallTime)
	defer cancel()
	on := func(t *session.Table) (session.Callback, nfs4.Status) { return t.CallbackOn(r.Session) }
	_, err := s.callback(ctx, on, r.Client, nfs4.CBRecallSlot, &nfs4.CBRecallSlotArgs{TargetHighestSlotID: r.Target}, nil)
	s.mu.Lock()
	s.cfg.Sessions.SlotsRecalled(&r)
	s.mu.Unlock()
	if err != nil {
		s.cfg.Log.Debug("slots not recalled", zap.String("clientid", fmt.Sprintf("%#x", uint64(r.Client))), zap.Error(err))
	}
}

// SlotUse says how the slots of all sessions are used.
func (s *Server) SlotUse() session.SlotUse {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.Sessions.SlotUse()
}
