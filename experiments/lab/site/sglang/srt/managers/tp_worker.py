"""The target model's worker: prefill, and plain decoding where there is no speculation."""

from sglang.srt.managers.schedule_batch import GenerationBatchResult


class TpModelWorker:
    """One rank of a model on the emulated device."""

    def __init__(self, server_args, gpu_id, tp_rank, device, timing):
        self.server_args = server_args
        self.gpu_id = gpu_id
        self.tp_rank = tp_rank
        self.device = device
        self.timing = timing

    def forward_batch_generation(self, batch):
        """One forward of the batch: each request's next token."""
        if batch.forward_mode.is_extend():
            self.device.launch(self.timing.prefill(batch.new_token_share))
        else:
            self.device.host(self.timing.plain_host())
            self.device.launch(self.timing.plain_device(batch.mean_seq_len, batch.batch_size()))
        self.device.read()
        for req in batch.reqs:
            req.append(1)
        return GenerationBatchResult([r.output_ids[-1] for r in batch.reqs], can_run_cuda_graph=not batch.forward_mode.is_extend())
