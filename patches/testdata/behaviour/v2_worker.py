"""Shaped like SGLang's v2 worker: phases on two classes, a call that only queues work."""

from sglang.srt.speculative.base_spec_worker import BaseDraftWorker, BaseSpecWorker


class EagleDraftWorker(BaseDraftWorker):
    def draft(self, batch):
        raise NotImplementedError

    def _draft_extend_for_decode(self, batch, batch_result):
        raise NotImplementedError

    def _draft_extend_for_prefill(self, *args):
        raise NotImplementedError


class EAGLEWorkerV2(BaseSpecWorker):
    def forward_batch_generation(self, batch, on_publish=None):
        if batch.forward_mode.is_extend() or batch.is_extend_in_batch:
            return self.draft_worker._draft_extend_for_prefill(batch, None, None)
        verify_input = self.draft_worker.draft(batch)
        batch.spec_info = verify_input
        batch_output = self.verify(batch)
        if on_publish is not None:
            on_publish(batch_output.new_seq_lens)
        self.draft_worker._draft_extend_for_decode(batch, batch_output)
        return batch_output

    def verify(self, batch):
        raise NotImplementedError

    def on_verify_complete_cpu(self, num_correct_drafts_per_req, batch_size=0):
        self.reported = len(num_correct_drafts_per_req)
