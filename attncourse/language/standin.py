"""TEMPORARY."""
import torch
from torch import nn
from attnlib.fused import *
from attnlib.fused import _kernel_shares_heads
from attnlib.functional import attention, merge_heads, split_heads
_T={}
def tables(n,d,base):
    if (n,d,base) not in _T:
        with torch.device("cpu"):
            f=1.0/base**(torch.arange(0,d,2).float()/d); a=torch.arange(n)[:,None]*f
            _T[n,d,base]=a.cos(),a.sin()
    return _T[n,d,base]
def rotate_pairs(x,cos,sin):
    a,b=x[...,0::2],x[...,1::2]
    return torch.stack((a*cos-b*sin,a*sin+b*cos),-1).flatten(-2)
class Rot(FusedMultiHeadAttention):
    def __init__(self,*a,rotary_base=None,**k):
        super().__init__(*a,**k); self.rotary_base=rotary_base
        self.out_proj=nn.Linear(self.d_out,self.d_out,bias=False)
    def forward(self,x,return_weights=False,cache=None):
        q,k,v=self.W_qkv(x).split(self.widths,dim=-1)
        q=split_heads(q,self.num_heads);k=split_heads(k,self.num_kv_heads);v=split_heads(v,self.num_kv_heads)
        s=cache.num_tokens if cache is not None else 0
        cos,sin=tables(self.context_length,self.head_dim,self.rotary_base)
        cos=cos[s:s+x.shape[1]];sin=sin[s:s+x.shape[1]]
        q=rotate_pairs(q,cos,sin);k=rotate_pairs(k,cos,sin)
        if cache is not None: k,v=cache.append(k,v)
        if return_weights:
            h=~may_attend_so_far(x.shape[1],k.shape[2])
            c,w=attention(q,repeat_heads(k,self.num_heads),repeat_heads(v,self.num_heads),h)
            return self.out_proj(merge_heads(c)),w
        return self.out_proj(merge_heads(fused_attention(q,k,v)))
